"""A skill set and a calls file with a call of every kind."""

from __future__ import annotations

from timely_llm_ros.skills.loading import parse_skill_set

SKILLS = parse_skill_set("""
name: bot
description: a robot
safe_action: stop
skills:
  go_to:
    description: go to the object
    arguments: {target: {kind: object}}
    duration: {model: constant, seconds: 5}
  ask:
    description: ask for something
    arguments: {level: {kind: int, minimum: 0, maximum: 9}}
    blocking: true
    returns: bool
    duration: {model: constant, seconds: 1}
  see:
    description: can the object be seen
    arguments: {target: {kind: object}}
    blocking: true
    returns: bool
    duration: {model: constant, seconds: 1}
  drive:
    description: drive for a while
    arguments:
      time: {kind: int, unit: s, minimum: 1, maximum: 10}
      level: {kind: int, minimum: 0, maximum: 9}
    duration: {model: linear, base_s: 0, per: {time: 1}}
  shove:
    description: shove the object away and take a picture
    arguments:
      target: {kind: object}
      distance: {kind: int, unit: cm, minimum: 1, maximum: 90}
      time: {kind: int, unit: ms, minimum: 1, maximum: 9000}
    duration: {model: constant, seconds: 5}
  stop: {description: stop, duration: {model: constant, seconds: 0.1}}
""")

CALLS = """\
# A call of every kind.
skills:
  go_to:
    action: go
    type: bot_msgs/action/Go
    goal: {pose: $target, speed: 0.5}
    success: {error_code: 0}
    remaining: left
    silence_s: 2.0
    limit_s: 60.0
  ask:
    - {service: ask, type: bot_msgs/srv/Ask, request: {what: first}, success: {ok: true}}
    - {service: ask, type: bot_msgs/srv/Ask, value: ok}
  see: {look: target}
  drive:
    topic: /cmd_vel
    type: geometry_msgs/msg/Twist
    message: {linear: {x: 0.2}}
    for: $time
    rate_hz: 4
    then: {angular: {z: 0}}
  shove:
    - {action: go, type: bot_msgs/action/Go, stand_off_m: -$distance, goal: {pose: $target}}
    - wait: $time
    - wait: 0.5
    - take_picture: true
  stop:
    - cancel_all: true
    - {topic: /cmd_vel, type: geometry_msgs/msg/Twist}
    - {service: halt, type: bot_msgs/srv/Ask, request: {what: halt}, success: {ok: true}}
"""
