"""Serves the window to browsers. It needs the package websockets."""

from timely_llm_ros.window.serving.server import WindowServer

__all__ = ['WindowServer']
