"""Serves the window to browsers. It needs the package websockets."""

from timely_llm_ros.window.serving.server import Recording, WindowServer

__all__ = ['Recording', 'WindowServer']
