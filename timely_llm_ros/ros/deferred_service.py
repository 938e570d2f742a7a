"""A service that answers when its work is done, without a callback that waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node


def create_deferred_service(
    node: Node,
    service_type: Any,
    name: str,
    on_request: Callable[[Any, Callable[[Any], None]], None],
) -> Any:
    """Create a service on a node and return it.

    ``on_request`` takes a request and the function that sends its response, which is to be called
    once, on the ROS thread. It must not wait. rclpy itself sends what a callback returns, so
    answering later takes a send of our own.
    """
    requests: list[Any] = []

    def keep(request: Any, response: Any) -> Any:
        requests.append(request)
        return response

    service = node.create_service(service_type, name, keep)
    send = service.send_response
    service.send_response = lambda _, header: on_request(
        requests.pop(), lambda response: send(response, header)
    )
    return service
