"""What a process of ours arranges with its system: how it ends, and how it speaks to others."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import resource
import signal
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from timely_llm_ros.errors import ConfigurationError

_PR_SET_PDEATHSIG = 1

LAUNCHER = 'TIMELY_LLM_LAUNCHER'
"""Environment variable by which our launch files say who launched a program: "true PID" has it end
with that process."""

SHARED_MEMORY = Path('/dev/shm')  # noqa: S108 (nothing is written there)

TRANSPORTS = 'FASTDDS_BUILTIN_TRANSPORTS'
"""Environment variable by which Fast DDS chooses its transports."""

SOCKET_BYTES = 2_000_000
"""Room of a socket of Fast DDS for what has come, where the system allows it. Hundreds of messages
tell each program of one that comes or goes; what finds no room is sent again seconds later."""

ALLOWED_BYTES = Path('/proc/sys/net/core/rmem_max')
"""Where Linux says how much room a socket may ask for (bytes)."""

PROFILES = ('FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE')
"""Environment variables that name a file of Fast DDS's profiles: of Fast DDS 3 and 2."""

_PROFILES_HERE = ('DEFAULT_FASTDDS_PROFILES.xml', 'DEFAULT_FASTRTPS_PROFILES.xml')
"""Files that Fast DDS reads where a program is started."""

LEAST_FILES = 64
"""Open files that a program needs; a planner, a robot's executor and a recorder have 25 at most."""

_MAKING_S = 5.0
"""Nobody takes so long to make a port, or to lock memory of its own."""

_SEGMENT = re.compile('fastdds_[0-9a-f]{16}')

# Loaded here: a child between fork and exec must not load libraries.
_LIBC = ctypes.CDLL(None) if sys.platform == 'linux' else None


def dead_ports(folder: Path = SHARED_MEMORY) -> list[Path]:
    """Return the ports of Fast DDS that a killed process left half made.

    Such a port has a name and no size. Every process that ever sends to it spins, in whatever
    domain it is.
    """
    now_s = time.time()
    found = []
    for path in sorted(folder.glob('fastdds_port*')):
        with suppress(OSError):
            state = path.stat()
            made = path.name.removeprefix('fastdds_port').isdecimal()
            # The wall clock may have been set back since.
            if made and not state.st_size and abs(now_s - state.st_mtime) > _MAKING_S:
                found.append(path)
    return found


def clear_shared_memory(folder: Path = SHARED_MEMORY) -> None:
    """Remove what programs of Fast DDS left that were killed, or ended without it.

    Whoever needs a half made port makes it anew. Nobody needs the memory that a participant had for
    its own messages: its lock is free since that process has ended. What belongs to another user is
    left to that user.
    """
    for path in dead_ports(folder):
        with suppress(OSError):
            path.unlink()
    now_s = time.time()
    for lock in folder.glob('fastdds_*_el'):
        memory = lock.with_name(lock.name.removesuffix('_el'))
        if not _SEGMENT.fullmatch(memory.name):
            continue
        with suppress(OSError), lock.open('rb') as file:
            # Before it is locked: whoever makes it finds it free.
            if abs(now_s - lock.stat().st_mtime) > _MAKING_S:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                memory.unlink(missing_ok=True)
                lock.unlink()


def require_files() -> None:
    """Let this process open as many files as it needs.

    Raises:
        ConfigurationError: It may not.
    """
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed >= LEAST_FILES or allowed == resource.RLIM_INFINITY:
        return
    if most != resource.RLIM_INFINITY and most < LEAST_FILES:
        raise ConfigurationError(
            f'{most} open files are allowed (ulimit -n): expected at least {LEAST_FILES}'
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (LEAST_FILES, most))


def prepare_for_dds() -> None:
    """Arrange how this process speaks to others; call it before ROS is initialised.

    Fast DDS is to speak UDP alone, unless its user has chosen transports or profiles: its shared
    memory waits by the wall clock, so that messages are late for as long as that is set back.
    Its sockets are to have more room than a system gives by default, and whoever is started is to
    hear of the others sooner.
    """
    clear_shared_memory()
    if not any(map(os.environ.get, PROFILES)) and not any(map(os.path.exists, _PROFILES_HERE)):
        os.environ.setdefault(TRANSPORTS, f'UDPv4?sockets_size={SOCKET_BYTES // 10**6}MB')
        # Fast DDS 2 does not know the other variable, and rmw of Fast DDS 3 warns of this one.
        name = PROFILES[1 if _has_fast_dds_2() else 0]
        os.environ[name] = str(Path(__file__).with_name('fast_dds.xml'))


def _has_fast_dds_2() -> bool:
    """Return whether the ROS 2 that is here is Jazzy, with Fast DDS 2."""
    rclpy = find_spec('rclpy')
    if rclpy is None or rclpy.origin is None:
        return False
    # PREFIX/lib/pythonX/site-packages/rclpy/__init__.py
    return (Path(rclpy.origin).parents[4] / 'share' / 'fastrtps').is_dir()


def take_precedence(*, alone: bool = False) -> bool:
    """Have this process run before all that is not real-time, with what it starts from now on.

    A robot's safety must not wait for a processor. The lowest real-time priority is enough for
    that, and lets whoever has a higher one go first. Call it when what takes long is done, such as
    imports: others of that priority may be waiting.

    Args:
        alone: Only this thread, and nothing that it starts.

    Returns:
        Whether the system allows it; nothing has changed if not.
    """
    try:
        policy = os.SCHED_RR | (os.SCHED_RESET_ON_FORK if alone else 0)
        lowest = os.sched_param(os.sched_get_priority_min(os.SCHED_RR))
        os.sched_setscheduler(0, policy, lowest)
    except (AttributeError, OSError):
        return False
    for task in () if alone else Path('/proc/self/task').iterdir():
        # It may have ended meanwhile.
        with suppress(OSError):
            os.sched_setscheduler(int(task.name), policy, lowest)
    return True


def end_with_parent(number: signal.Signals, *, parent_pid: int) -> None:
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


class Backoff:
    """Pauses before attempts in a row: each is twice as long as the one before, up to the last."""

    def __init__(self, first_s: float, last_s: float) -> None:
        self._first_s, self._last_s = first_s, last_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Return the pause before the next attempt (s)."""
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._last_s)
        return pause_s

    def reset(self) -> None:
        """Begin with the first pause again, after an attempt that succeeded."""
        self._next_s = self._first_s


def end_with_launch() -> None:
    """End as on SIGTERM when the launch that started this process is gone, if it asked for that.

    Launch takes its programs down on Ctrl-C, but neither on SIGTERM nor when it is killed. A
    program under a prefix, such as a debugger, is no child of launch and is left alone.
    """
    # Not for what this process starts in turn.
    asked, _, launcher = os.environ.pop(LAUNCHER, '').partition(' ')
    if asked != 'true' or not launcher.isdecimal():
        return
    if os.getppid() == int(launcher) or not Path('/proc', launcher).exists():
        end_with_parent(signal.SIGTERM, parent_pid=int(launcher))
