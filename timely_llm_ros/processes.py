"""How a child process ends with its parent."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from signal import Signals

_PR_SET_PDEATHSIG = 1

# Loaded here: a child between fork and exec must not load libraries.
_LIBC = ctypes.CDLL(None) if sys.platform == 'linux' else None


def end_with_parent(number: Signals, *, parent_pid: int) -> None:
    """Have the kernel send this process a signal when its parent ends, however it ends.

    A process calls it early in its life. The kernel takes the thread that started the process for
    the parent, so that thread has to live as long as the parent does. Systems other than Linux
    have no such signal; nothing happens there.

    Args:
        number: The signal. It comes at once if the parent has ended already.
        parent_pid: Process id of the parent, which the parent has told.
    """
    if _LIBC is None:
        return
    _LIBC.prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), number)
