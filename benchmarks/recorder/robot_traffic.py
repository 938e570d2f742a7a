"""Publishes what a fleet of robots would: a program of its own, so that it loads its own core.

Messages are made once and sent as bytes, each with the number of its topic's message in it. Sends
until its input closes, then prints what it sent as one line of JSON and waits for another close.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time

import rclpy
from rclpy.qos import QoSProfile
from rclpy.serialization import serialize_message
from timely_llm_ros.msg import RobotState, SkillSegment

TICK_S = 0.02
KEPT = 200
"""Messages that a publisher keeps until they are acknowledged: 10 s of them. What gets lost on its
way is sent again after a heartbeat, every 3 s in Fast DDS; by then it must still be there."""

NUMBER = 0x5EED5EED
"""Stands in the prepared bytes where each message's number goes."""


def padded(message: object, field: str, size: int) -> tuple[bytearray, int]:
    """Return a message of that many serialised bytes and the offset of its number."""
    setattr(message, field, 'x')
    spare = size - len(serialize_message(message))
    setattr(message, field, 'x' * (1 + max(0, spare)))
    data = bytearray(serialize_message(message))
    return data, data.index(struct.pack('<I', NUMBER))


def number_of(data: bytes, offset: int) -> int:
    """Return the number that a message carries."""
    return int(struct.unpack_from('<I', data, offset)[0])


def templates(size: int) -> dict[str, tuple[bytearray, int]]:
    """Return bytes and the offset of the number, by the topic's last name."""
    return {
        'robot_state': padded(
            RobotState(robot='robot_10', skill_set='tello', segment=NUMBER), 'call', size
        ),
        'skill_segments': padded(
            SkillSegment(robot='robot_10', skill_set='tello', index=NUMBER), 'text', size
        ),
    }


def main() -> None:
    robots, rate, size, namespace = (
        int(sys.argv[1]),
        float(sys.argv[2]),
        int(sys.argv[3]),
        sys.argv[4],
    )
    rclpy.init()
    node = rclpy.create_node('traffic')
    kinds = {'robot_state': (RobotState, 2), 'skill_segments': (SkillSegment, 1)}
    made = templates(size)
    parts = []
    for name, (kind, share) in kinds.items():
        data, offset = made[name]
        for robot in range(robots):
            topic = f'{namespace}/robot_{robot}/{name}'
            publisher = node.create_publisher(kind, topic, QoSProfile(depth=KEPT))
            # (messages per tick, publisher, its own bytes, where the number goes)
            parts.append((rate * TICK_S * share / 3 / robots, publisher, bytearray(data), offset))
    while not all(part[1].get_subscription_count() for part in parts):
        time.sleep(0.05)
    print('ready', flush=True)
    sys.stdin.readline()
    ending = threading.Event()

    def end_when_told() -> None:
        sys.stdin.readline()
        ending.set()

    threading.Thread(target=end_when_told, daemon=True).start()
    sent = [0] * len(parts)
    started_s = time.monotonic()
    ticks = 0
    late_s = 0.0
    while not ending.is_set():
        ticks += 1
        for place, (per_tick, publisher, data, offset) in enumerate(parts):
            # Robots do not speak at the same moment: each has its own phase within the period.
            due = int(per_tick * ticks + place * 0.618 % 1)
            while sent[place] < due:
                struct.pack_into('<I', data, offset, sent[place])
                publisher.publish(bytes(data))
                sent[place] += 1
        left_s = started_s + ticks * TICK_S - time.monotonic()
        if left_s > 0:
            time.sleep(left_s)
        else:
            late_s = max(late_s, -left_s)
    elapsed_s = time.monotonic() - started_s
    told = {
        'sent': {part[1].topic_name: count for part, count in zip(parts, sent, strict=True)},
        'elapsed_s': elapsed_s,
        'latest_s': late_s,
        'offset': {name: offset for name, (_, offset) in made.items()},
    }
    print(json.dumps(told), flush=True)
    # Its history stays until all is acknowledged.
    sys.stdin.readline()
    node.destroy_node()
    rclpy.try_shutdown()


if __name__ == '__main__':
    main()
