"""Cuts a robot's power, whatever plans, queues and locks there are: the last resort."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from timely_llm_ros.execution.robot_link import SegmentCode

if TYPE_CHECKING:
    from timely_llm_ros.execution.executor import SegmentExecutor


@runtime_checkable
class EmergencyDriver(Protocol):
    """A driver of a robot whose power can be cut."""

    async def emergency(self) -> None:
        """Cut it at once, whatever the robot does; the call in hand fails.

        Raises:
            RobotUnavailableError: The robot cannot be told.
        """
        ...


async def cut_power(executor: SegmentExecutor, why: str) -> bool:
    """Cut a robot's power, or bring it to its safe action where its driver knows no other way.

    Args:
        executor: The robot's; what runs or waits on it ends CANCELED.
        why: Part of the outcomes' text.

    Returns:
        Whether the robot was told.

    Raises:
        RobotUnavailableError: The robot cannot be told.
    """
    stop = asyncio.create_task(executor.stop(SegmentCode.CANCELED, f'emergency: {why}'))
    try:
        if isinstance(executor.driver, EmergencyDriver):
            await executor.driver.emergency()
    finally:
        told = await stop
    return told or isinstance(executor.driver, EmergencyDriver)
