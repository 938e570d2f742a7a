"""Hands the package's log to ROS, so that it reaches the console and ``/rosout``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rclpy.logging import LoggingSeverity, get_logger

if TYPE_CHECKING:
    from rclpy.node import Node

PACKAGE = 'timely_llm_ros'

LEVELS = ('', 'debug', 'info', 'warn', 'error', 'fatal')
"""What a node's parameter of its log's level may be; "" for what its command line says."""


class NodeLogHandler(logging.Handler):
    """Logs in the name of a node: only that names the node, and its namespace, and is published."""

    def __init__(self) -> None:
        super().__init__()
        self._own = get_logger(PACKAGE)
        self._children: dict[str, Any] = {}

    def follow(self, node: Node | None) -> None:
        """Log in the name of this node; call it with None before the node is destroyed."""
        self._children.clear()
        self._own = get_logger(PACKAGE) if node is None else node.get_logger()

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record of the package in the name of the node and of the module."""
        name = record.name.removeprefix(f'{PACKAGE}.')
        logger = self._children.get(name)
        if logger is None:
            logger = self._children[name] = self._own.get_child(name)
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


def log_as(node: Node | None) -> None:
    """Have the package's log speak for a node; None where there is none any more."""
    for handler in logging.getLogger(PACKAGE).handlers:
        if isinstance(handler, NodeLogHandler):
            handler.follow(node)


def set_level(node: Node, level: str) -> None:
    """Log from this severity on, in the node and in the package; "" for the command line's."""
    severity = LoggingSeverity.UNSET if not level else LoggingSeverity[level.upper()]
    node.get_logger().set_level(severity)
    effective = node.get_logger().get_effective_level()
    # The severities of ROS are Python's.
    logging.getLogger(PACKAGE).setLevel(int(effective))
