"""The parameters of the executor node."""

from __future__ import annotations

from dataclasses import dataclass

from timely_llm_ros.drivers import SimulatedOptions, driver_names
from timely_llm_ros.execution import ExecutorLimits
from timely_llm_ros.ros import MetricsOptions, fixed, fixed_group


@dataclass(frozen=True, slots=True)
class ExecutorParameters:
    """Parameters of the executor node. All are fixed once it has started."""

    robot: str = fixed('', 'Name of the robot; "" where robots names them all.')
    skill_set: str = fixed(
        '', 'Its skill set: the name of a shipped one or a path; "" only without robot.'
    )
    robots: tuple[str, ...] = fixed(
        (), 'More robots in the same process, one "name:skill_set" each.'
    )
    autostart: bool = fixed(
        True, 'Connect the robots and take segments at start; else wait for the transitions.'
    )
    driver: str = fixed('simulated', 'What moves the robots.', choices=driver_names())
    drivers_file: str = fixed(
        '',
        'YAML file with the driver and the options of robots by name, e.g. '
        '"arm_1: {driver: indy, host: 192.168.0.10}", and their envelopes; "" for none. Robots '
        'that are not in it have the driver that the parameter names.',
    )
    simulated: SimulatedOptions = fixed_group(SimulatedOptions())
    planner_timeout_s: float = fixed(
        0.42,
        'Silence of the planner (s), with a plan of it in hand, after which the robot is brought '
        'to its safe action; 0 to go on without a planner.',
        minimum=0.0,
        maximum=60.0,
    )
    # A Tello's guard then waits up to 0.1 s for a state that says whether it lands.
    worker_timeout_s: float = fixed(
        0.16,
        'Silence of the process that drives the robots (s) after which its guard ends it and makes '
        'the robots safe; 4 s more while all of them rest.',
        minimum=0.1,
        maximum=60.0,
    )
    state_period_s: float = fixed(
        0.1,
        'How often robot_state is published while it changes (s); else 0.4 s, at rest 4 s.',
        minimum=0.02,
        maximum=0.4,
    )
    limits: ExecutorLimits = fixed_group(ExecutorLimits())
    result_timeout_s: int = fixed(
        60,
        "How long a finished segment's result is kept (s); of the last 50 segments at most.",
        minimum=1,
        maximum=86400,
    )
    metrics: MetricsOptions = fixed_group(MetricsOptions())
