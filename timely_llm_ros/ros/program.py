"""Runs a node's program: its asyncio loop, its signals and its log."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

from rclpy.logging import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Work = Callable[[asyncio.Event], Awaitable[int]]


SWITCH_INTERVAL_S = 0.0002
"""How long one thread may keep the interpreter while the other waits for it (s)."""


class _RosLogHandler(logging.Handler):
    """Hands the package's log to ROS, so that it reaches the console and ``/rosout``."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = get_logger(record.name)
        text = self.format(record)
        # rclpy binds a severity to the line that logs it, so each needs a line of its own.
        if record.levelno >= logging.ERROR:
            logger.error(text)
        elif record.levelno >= logging.WARNING:
            logger.warning(text)
        elif record.levelno >= logging.INFO:
            logger.info(text)
        else:
            logger.debug(text)


def run(work: Work) -> int:
    """Run a program's work on an asyncio loop; return its exit code.

    Args:
        work: Called with an event that is set at SIGINT or SIGTERM.
    """
    # The ROS thread's work must not hold up a robot that waits on the loop, nor the other way.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    package = logging.getLogger('timely_llm_ros')
    package.addHandler(_RosLogHandler())
    package.propagate = False
    package.setLevel(logging.INFO)
    return asyncio.run(_run(work))


async def _run(work: Work) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return await work(stop)
