"""The parameters of the executor node."""

from __future__ import annotations

from dataclasses import dataclass

from timely_llm_ros.drivers import DRIVERS, SimulatedOptions
from timely_llm_ros.execution import ExecutorLimits
from timely_llm_ros.ros import parameter

_SIMULATED, _LIMITS = SimulatedOptions(), ExecutorLimits()


@dataclass(frozen=True, slots=True)
class ExecutorParameters:
    """Parameters of the executor node. All are fixed once it has started."""

    robot: str = parameter('', 'Name of the robot; "" where robots names them all.')
    skill_set: str = parameter(
        '', 'Its skill set: the name of a shipped one or a path; "" only without robot.'
    )
    robots: tuple[str, ...] = parameter(
        (), 'More robots in the same process, one "name:skill_set" each.'
    )
    driver: str = parameter('simulated', 'What moves the robots.', choices=tuple(DRIVERS))
    drivers_file: str = parameter(
        '',
        'YAML file with the driver and the options of robots by name, e.g. '
        '"arm_1: {driver: indy, host: 192.168.0.10}"; "" for none. Robots that are not in it have '
        'the driver that the parameter names.',
    )
    seed: int = parameter(
        _SIMULATED.seed,
        "Seed of the simulated driver; each robot's times follow from it and the robot's name.",
        minimum=0,
        maximum=2**31 - 1,
    )
    time_scale: float = parameter(
        _SIMULATED.time_scale,
        'The simulated driver multiplies the duration of every skill by this.',
        minimum=0.0,
        maximum=1000.0,
    )
    failure_probability: float = parameter(
        _SIMULATED.failure_probability,
        'How likely a call of the simulated driver fails.',
        minimum=0.0,
        maximum=1.0,
    )
    journal_path: str = parameter(
        _SIMULATED.journal_path,
        "File to which the simulated driver appends what the robot's body is told, as JSON lines; "
        '{robot} stands for the name of the robot; "" for none.',
    )
    planner_timeout_s: float = parameter(
        1.0,
        'Silence of the planner (s), with a plan of it in hand, after which the robot is brought '
        'to its safe action; 0 to go on without a planner.',
        minimum=0.0,
        maximum=60.0,
    )
    state_period_s: float = parameter(
        0.1, 'How often robot_state is published (s).', minimum=0.02, maximum=1.0
    )
    idle_limit_s: float = parameter(
        _LIMITS.idle_limit_s,
        "How long a robot may wait for its plan's next segment before it is brought to its safe "
        'action (s).',
        minimum=0.1,
        maximum=3600.0,
    )
    timeout_factor: float = parameter(
        _LIMITS.timeout_factor,
        'A call may take this times its expected duration,',
        minimum=1.0,
        maximum=1000.0,
    )
    timeout_margin_s: float = parameter(
        _LIMITS.timeout_margin_s,
        'or its expected duration plus this (s), whichever is more.',
        minimum=0.0,
        maximum=3600.0,
    )
    result_timeout_s: int = parameter(
        60,
        "How long a finished segment's result is kept (s).",
        minimum=1,
        maximum=86400,
    )

    @property
    def limits(self) -> ExecutorLimits:
        """How long the executors of the robots let things take."""
        return ExecutorLimits(
            timeout_factor=self.timeout_factor,
            timeout_margin_s=self.timeout_margin_s,
            idle_limit_s=self.idle_limit_s,
        )
