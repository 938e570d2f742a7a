"""Which replicas run, told to the engines of this process by the routers of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Listener = Callable[[frozenset[str]], None]

_listeners: dict[str, list[Listener]] = {}
_running: dict[str, frozenset[str]] = {}


def listen(app: str, listener: Listener) -> None:
    """Have the names of an app's running replicas told whenever they change, on any thread."""
    _listeners.setdefault(app, []).append(listener)
    if app in _running:
        listener(_running[app])


def unlisten(app: str, listener: Listener) -> None:
    """Tell a listener nothing more."""
    if listener in _listeners.get(app, ()):
        _listeners[app].remove(listener)


def tell(app: str, names: frozenset[str]) -> None:
    """Tell an app's listeners the names of its running replicas."""
    _running[app] = names
    for listener in tuple(_listeners.get(app, ())):
        listener(names)
