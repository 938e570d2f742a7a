"""The ROS node that plays a trace back onto its topics, with ``/clock``, pause, step and seek."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from builtin_interfaces.msg import Time
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock as RosClock
from rclpy.clock_type import ClockType
from rclpy.duration import Duration
from rosgraph_msgs.msg import Clock
from std_srvs.srv import Trigger

from lrtrace.playback.playback import MAX_RATE, MIN_RATE, Playback
from lrtrace.record import ProgramNode, message_class, qos_profile, run_program
from lrtrace.storage import TopicQos, Trace, qos_profiles
from timely_llm_ros.errors import ConfigurationError, TraceError
from timely_llm_ros.options import option
from timely_llm_ros.ros import declare, fixed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcap.records import Channel, Message, Schema
    from rclpy.parameter import Parameter

PERIOD_S = 0.005
"""How often the replay looks for messages that are due (s)."""

ACKNOWLEDGED_S = 2.0
"""How long the end waits for reliable subscribers to have everything (s)."""

MOST_TOPICS = 1000
"""Topics that are played at once: a publisher takes 65 kB, and a trace may come from anybody."""

NEVER = ('*/_action/*', '/clock')
"""Topics that are not played, since they belong to action servers and to this replay's clock."""


@dataclass(frozen=True, slots=True)
class ReplayParameters:
    """What the replay is told."""

    trace: str = fixed('', 'what to play: a trace folder or an MCAP file')
    topics: tuple[str, ...] = fixed(('*',), 'patterns of the topics to play, by full name')
    prefix: str = fixed('', "put before every topic's name, e.g. /replayed")
    start_paused: bool = fixed(False, 'wait for the service resume or play_next')
    at_end: str = fixed(
        'exit', 'what to do behind the last message', choices=('exit', 'pause', 'loop')
    )
    clock_hz: float = fixed(
        40.0, 'how often /clock is published; 0: never', minimum=0.0, maximum=1000.0
    )
    rate: float = option(
        1.0,
        'seconds of the trace that pass in one real one; may be set at any time',
        minimum=MIN_RATE,
        maximum=MAX_RATE,
    )
    position_s: float = option(0.0, "where to begin (s from the trace's start); set it to seek")


class ReplayNode(ProgramNode):
    """Plays a trace, from :meth:`start` on. ``rate`` and ``position_s`` may be set at any time."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__('replay', **node_options)
        self._done = False
        self.published = 0
        """Messages played so far."""
        self._topic_publishers: dict[str, Any] = {}
        self._skipped: set[str] = set()
        self._steady = RosClock(clock_type=ClockType.STEADY_TIME)

    def start(self) -> None:
        """Open the trace and begin.

        Raises:
            ConfigurationError: A parameter cannot be used.
            TraceError: The trace cannot be read, or holds no message to play.
        """
        options = self._options = declare(self, ReplayParameters)
        if not options.trace:
            raise ConfigurationError('parameter trace: expected a trace folder or an MCAP file')
        trace = Trace(options.trace)
        self._playback = Playback(
            trace,
            wanted=self._is_wanted,
            rate=options.rate,
            paused=options.start_paused,
            now_s=self._now_s,
        )
        if trace.damage:
            self.get_logger().warning(f'{options.trace}: {trace.damage}')
        if options.position_s:
            self._playback.seek(options.position_s, self._now_s)
        if self._playback.ended:
            raise TraceError(
                f'trace {options.trace!r}: no message to play: expected one of the topics '
                f'{", ".join(options.topics)}'
            )
        self._advertise(trace)
        self._clock_publisher = self.create_publisher(Clock, '/clock', 10)
        for name, answer in (
            ('pause', self._pause),
            ('resume', self._resume),
            ('toggle_paused', self._toggle),
            ('play_next', self._play_next),
        ):
            self.create_service(Trigger, f'~/{name}', answer)
        self.add_on_set_parameters_callback(self._on_parameters)
        if options.clock_hz:
            self.create_timer(1 / options.clock_hz, self._tell_time, clock=self._steady)
        self.create_timer(PERIOD_S, self._play, clock=self._steady)
        self.get_logger().info(
            f'{options.trace}: {self._playback.duration_s:.1f} s, '
            f'{len(self._topic_publishers)} topics'
        )

    @property
    def over(self) -> bool:
        """Whether the trace has ended and the program with it."""
        return self._done

    def finish(self) -> int:
        """Wait a while until reliable subscribers have everything, and say how much was played."""
        end_s = self._now_s + ACKNOWLEDGED_S
        for publisher in self._topic_publishers.values():
            publisher.wait_for_all_acked(Duration(seconds=max(0.0, end_s - self._now_s)))
        print(f'{self.published} messages played', flush=True)
        return 0

    @property
    def _now_s(self) -> float:
        return float(self._steady.now().nanoseconds / 1e9)

    def _is_wanted(self, topic: str) -> bool:
        if any(fnmatchcase(topic, pattern) for pattern in NEVER):
            return False
        return any(fnmatchcase(topic, pattern) for pattern in self._options.topics)

    def _advertise(self, trace: Trace) -> None:
        """Create every publisher before the first message, so that subscribers can find them.

        Raises:
            TraceError: There are too many.
        """
        wanted = [found for found in trace.topics() if self._is_wanted(found[1].topic)]
        if len(wanted) > MOST_TOPICS:
            raise TraceError(
                f'trace {self._options.trace!r}: {len(wanted)} topics to play: expected at most '
                f'{MOST_TOPICS}, chosen by the parameter topics'
            )
        for schema, channel in wanted:
            try:
                kind = message_class(schema.name)
            except TraceError as err:
                self.get_logger().warning(f'topic {channel.topic} is not played: {err}')
                continue
            self._topic_publishers[channel.topic] = self.create_publisher(
                kind, f'{self._options.prefix}{channel.topic}', qos_profile(_recorded_qos(channel))
            )

    def _play(self) -> None:
        now_s = self._now_s
        for message in self._playback.due(now_s):
            self._publish(message)
        if not self._playback.ended or self._playback.paused:
            return
        match self._options.at_end:
            case 'loop':
                self._playback.seek(0.0, now_s)
            case 'pause':
                self._playback.pause(now_s)
            case _:
                self._tell_time()
                self._done = True

    def _publish(self, found: tuple[Schema, Channel, Message]) -> None:
        _, channel, message = found
        publisher = self._topic_publishers.get(channel.topic)
        if publisher is not None:
            publisher.publish(message.data)
            self.published += 1

    def _tell_time(self) -> None:
        second, nanosecond = divmod(self._playback.position_ns(self._now_s), 1_000_000_000)
        self._clock_publisher.publish(Clock(clock=Time(sec=second, nanosec=nanosecond)))

    # Services and parameters

    def _pause(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._playback.pause(self._now_s)
        return self._answered(response)

    def _resume(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._playback.resume(self._now_s)
        return self._answered(response)

    def _toggle(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        answer = self._resume if self._playback.paused else self._pause
        return answer(request, response)

    def _play_next(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if not self._playback.paused:
            response.message = 'it plays: expected it to be paused'
            return response
        found = self._playback.step(self._now_s)
        if found is None:
            response.message = 'the trace has ended'
            return response
        self._publish(found)
        self._tell_time()
        response.success, response.message = True, found[1].topic
        return response

    def _answered(self, response: Trigger.Response) -> Trigger.Response:
        state = 'paused' if self._playback.paused else 'playing'
        response.success = True
        response.message = f'{state} at {self._playback.position_s(self._now_s):.3f} s'
        return response

    def _on_parameters(self, changes: list[Parameter]) -> SetParametersResult:
        try:
            for change in changes:
                if change.name == 'rate':
                    self._playback.set_rate(change.value, self._now_s)
                elif change.name == 'position_s':
                    self._playback.seek(change.value, self._now_s)
                    self._tell_time()
        except ConfigurationError as err:
            return SetParametersResult(successful=False, reason=str(err))
        return SetParametersResult(successful=True)


def _recorded_qos(channel: Channel) -> TopicQos:
    """Return what the recorded publisher offered, deep enough for bursts."""
    recorded = qos_profiles(channel.metadata.get('offered_qos_profiles', ''))
    profile = recorded[0] if recorded else {}
    durability, depth = str(profile.get('durability')), profile.get('depth')
    least = 1 if durability == 'transient_local' else 100
    return TopicQos(
        reliability=str(profile.get('reliability')),
        durability=durability,
        depth=max(depth, least) if isinstance(depth, int) else least,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Play until the end, SIGINT or SIGTERM; return the exit code."""
    return run_program(ReplayNode, arguments)


if __name__ == '__main__':
    sys.exit(main())
