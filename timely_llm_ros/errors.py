"""The one tree of errors. A message names the offending value and what was expected.

``code`` is the number under which an error crosses ROS: it equals the constant of the
same name in ``action/PlanTask.action``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class TimelyError(Exception):
    """Root of every error that this project raises on purpose."""

    code: ClassVar[int] = 99
    """``PlanTask`` result code; 99 is UNKNOWN."""


class ConfigurationError(TimelyError):
    """A parameter, file or option that cannot be used."""

    code = 1


class SkillSetError(ConfigurationError):
    """A skill-set file that is not valid.

    Args:
        source: File name, or a description of where the text came from.
        line: 1-based line, 0 where no line applies.
        key: Dotted path of the offending key, for example ``skills.goto.arguments``.
        problem: The offending value and what was expected.
    """

    def __init__(self, source: str, line: int, key: str, problem: str) -> None:
        self.source, self.line, self.key, self.problem = source, line, key, problem
        where = f'{source}:{line}' if line else source
        super().__init__(f'{where}: {key}: {problem}')


class ContractError(ConfigurationError):
    """A library whose version, names or arguments are not what this package expects."""


class InvalidTaskError(TimelyError):
    """A task that names something unknown or carries a value out of range."""

    code = 1


class TaskRefusedError(TimelyError):
    """A valid task that cannot be served, for example within its time budget."""

    code = 2


class SupersededError(TimelyError):
    """A newer task for the same robot took over."""

    code = 3


class TaskCanceledError(TimelyError):
    """The client cancelled the task."""

    code = 4


class PlanError(TimelyError):
    """Generated text that must not reach a robot.

    Args:
        problem: The offending text and what was expected.
        offset: 0-based character offset in the plan at which it was found.
    """

    code = 5

    def __init__(self, problem: str, offset: int) -> None:
        self.problem, self.offset = problem, offset
        super().__init__(f'plan, character {offset}: {problem}')


class PlanSyntaxError(PlanError):
    """Text that is not in the plan language."""


class UnknownSkillError(PlanError):
    """A call of a skill that the robot does not have."""


class ArgumentError(PlanError):
    """An argument of the wrong number, type, range or object."""


class IncompletePlanError(PlanError):
    """A generation that ended in the middle of a statement."""


class PlanLimitError(PlanError):
    """A plan or a segment that asks for more than its skill set's limits allow."""


class EngineError(TimelyError):
    """The engine cannot generate."""

    code = 6


class ModelLoadError(EngineError):
    """The model cannot be loaded."""


class ServerLostError(EngineError):
    """A server that does not answer or is in trouble; another one may serve, or this one later."""


class ServerBusyError(ServerLostError):
    """A server that is well but has too much to do for this request now.

    Args:
        message: What it said.
        retry_after_s: After how long it wants to be asked again (s); None where it does not say.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RequestRefusedError(EngineError):
    """A request that a server will never serve."""


class RobotUnavailableError(TimelyError):
    """The robot's executor cannot be reached or went away."""

    code = 7


class ExecutionError(TimelyError):
    """A robot could not do what a segment asked for."""

    code = 8


class SkillFailedError(ExecutionError):
    """A driver refused a skill or the robot reported failure."""


class EnvelopeError(ExecutionError):
    """A call would take a robot out of its envelope.

    Args:
        rule: Name of the rule that it would break.
        problem: The call, the rule, the offending value and what was expected.
    """

    def __init__(self, rule: str, problem: str) -> None:
        self.rule = rule
        super().__init__(problem)


class DriverTimeoutError(ExecutionError):
    """A skill did not end within its limit."""


class BudgetOverrunError(TimelyError):
    """The time budget passed before the generation ended."""

    code = 9


class ShutdownError(TimelyError):
    """The planner is going down."""

    code = 10


class PlannerLostError(TimelyError):
    """No planner is there, or the one that had the task died.

    Its robot makes itself safe. The task may be sent again.
    """

    code = 11


class WorthlessError(TimelyError):
    """A task that can no longer earn more than its floor, ended before more was spent on it."""

    code = 12


class NotAllowedError(TimelyError):
    """A client may not command that robot."""

    code = 13


class NotApprovedError(TimelyError):
    """Somebody refused what needs approval, or nobody approved it in time."""

    code = 14


class TraceError(TimelyError):
    """A trace that cannot be read or written."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How something ended: a task, a segment, a plan made in the background.

    Attributes:
        code: 0 for success; else what kind of error it was. For a task and a plan it is the
            ``code`` of a class in this file, for a segment a ``SegmentCode``.
        message: What went wrong, with the offending value; empty on success.
    """

    code: int = 0
    message: str = ''

    @classmethod
    def of(cls, error: TimelyError) -> Ending:
        """Return the ending that an error stands for."""
        return cls(error.code, str(error))

    @property
    def succeeded(self) -> bool:
        """Whether nothing went wrong."""
        return self.code == 0
