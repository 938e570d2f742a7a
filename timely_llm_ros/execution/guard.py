"""Runs a program as two processes that watch each other, so that a robot is never left moving.

The worker drives the robot; the guard does nothing but wait. If one of the two is killed, even by
``kill -9``, the other brings the robot to its safe action and exits. Nothing here helps if both are
lost at once, or the machine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.execution.limits import SAFE_ATTEMPTS
from timely_llm_ros.processes import take_precedence
from timely_llm_ros.silence import Silence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType

    MakeSafe = Callable[[], Awaitable[None]]

EXIT_GUARD_LOST = 70
"""Exit code of a worker whose guard was gone, after it made the robot safe."""

EXIT_HUNG = 71
"""Exit code of a guard that killed its worker for giving no sign of life."""

FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The guard passes these signals on to the worker."""

SAFE_LIMIT_S = 10.0
"""How long one attempt may take (s), opening the driver included."""

_POLL_S = 0.02
_BEAT = struct.Struct('d')


class Guard:
    """The worker's view of its guard."""

    def __init__(
        self,
        channel: socket.socket,
        make_safe: MakeSafe,
        at_risk: Callable[[], bool],
        grace_s: float,
    ) -> None:
        self._channel, self._make_safe, self._at_risk = channel, make_safe, at_risk
        self._grace_s = grace_s
        self._lost, self._work_over = threading.Event(), threading.Event()
        self._callback: Callable[[], object] | None = None
        self._thread = threading.Thread(target=self._watch, name='guard watch', daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether the guard is gone."""
        return self._lost.is_set()

    def beat(self, next_within_s: float) -> None:
        """Give a sign of life and promise the next one within that time (s); 0: none will come.

        A worker that does not keep its promise is killed, and the robot made safe.
        """
        try:
            self._channel.send(_BEAT.pack(next_within_s), socket.MSG_DONTWAIT)
        except OSError:
            # Full: the guard has enough to read. Gone: the watch thread deals with it.
            return

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Have ``callback`` called on another thread when the guard is gone.

        It should make the robot safe with the driver in use and end the process. If the process
        still exists after the grace time, another driver is opened to make the robot safe.
        """
        self._callback = callback
        if self.lost:
            callback()

    def leave(self, code: int) -> NoReturn:
        """End the worker; if its guard is gone and the robot may still move, make it safe first."""
        if code != 0 and self.lost:
            self._work_over.set()
            # That thread ends the process once the robot is safe.
            self._thread.join()
        _leave(code)

    def _watch(self) -> None:
        try:
            while self._channel.recv(_BEAT.size):
                pass
        except OSError as err:
            _say(f'worker: channel to the guard broke: {err}')
        _say('worker: the guard is gone')
        self._lost.set()
        if self._callback is not None:
            try:
                self._callback()
            except Exception:  # noqa: BLE001 (the robot is made safe whatever fails)
                traceback.print_exc()
            self._work_over.wait(self._grace_s)
        if self._at_risk():
            _issue_safe_action('worker', self._make_safe)
        _leave(EXIT_GUARD_LOST)


def run_guarded(
    work: Callable[[Guard], int],
    make_safe: MakeSafe,
    *,
    prepare: Callable[[], None] = lambda: None,
    at_risk: Callable[[], bool] = lambda: True,
    grace_s: float = 2.0,
) -> int:
    """Run ``work`` in a child process under a guard. A program's main calls this first of all.

    Args:
        work: Drives the robot in the child; returns its exit code, 0 only if the robot is safe.
        make_safe: Opens a driver, issues the safe action and closes the driver. Either process may
            call it, on a loop of its own.
        prepare: Does in advance what ``make_safe`` need not lose time with, such as imports. The
            guard calls it at each sign of life of the worker: cheap where nothing is new.
        at_risk: Says whether the robot may have moved, so that it has to be made safe. Either
            process calls it at its end.
        grace_s: How long a worker whose guard is gone has to make the robot safe itself (s).

    Returns:
        The exit code for the program: that of the worker, 128 plus the number of the signal that
        killed it, or ``EXIT_HUNG``. Only the guard returns; the child never does.

    Raises:
        ConfigurationError: Threads are running already, which a fork would lose.
    """
    if threading.active_count() > 1:
        names = ', '.join(thread.name for thread in threading.enumerate())
        raise ConfigurationError(f'threads {names}: expected only the main one before the guard')
    guards_end, workers_end = socket.socketpair(type=socket.SOCK_SEQPACKET)
    sys.stdout.flush()
    sys.stderr.flush()
    worker = os.fork()
    if worker == 0:
        guards_end.close()
        # Out of the terminal's foreground group: only the guard gets Ctrl-C, and passes it on.
        os.setpgid(0, 0)
        _work(work, Guard(workers_end, make_safe, at_risk, grace_s))
    workers_end.close()
    take_precedence(alone=True)
    code = _keep_watch(worker, guards_end, prepare)
    if code != 0 and at_risk():
        _say(f'guard: worker {worker} ended with code {code}; making the robot safe')
        _issue_safe_action('guard', make_safe)
    return code


def _work(work: Callable[[Guard], int], guard: Guard) -> None:
    code = 1
    try:
        code = work(guard)
    except SystemExit as err:
        code = err.code if isinstance(err.code, int) else int(err.code is not None)
    except KeyboardInterrupt:
        # Before its own handlers were there.
        code = 128 + signal.SIGINT
    except BaseException:  # noqa: BLE001 (whatever ends the worker is told and counts as failure)
        traceback.print_exc()
    finally:
        guard.leave(code)


def _keep_watch(worker: int, channel: socket.socket, prepare: Callable[[], None]) -> int:
    """Wait for the worker's end; return the program's exit code."""

    def forward(number: int, _frame: FrameType | None) -> None:
        try:
            os.kill(worker, number)
        except ProcessLookupError:
            return

    for number in FORWARDED_SIGNALS:
        signal.signal(number, forward)
    silence, limit_s = Silence(most_s=4 * _POLL_S), 0.0
    open_ = True
    # Not select.select(), which takes no descriptor above 1023.
    heard = select.poll()
    heard.register(channel, select.POLLIN)
    while True:
        ended, status = os.waitpid(worker, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        left_s = limit_s - silence.look() if limit_s else _POLL_S
        if open_ and heard.poll(1000 * min(max(left_s, 0.001), _POLL_S)):
            if beat := channel.recv(_BEAT.size):
                (limit_s,) = _BEAT.unpack(beat)
                _prepare(prepare)
                silence.heard()
            else:
                open_ = False
        elif not open_:
            time.sleep(0.005)
        if limit_s and silence.look() > limit_s:
            _say(f'guard: no sign of life from worker {worker} for {limit_s:g} s; killing it')
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
            return EXIT_HUNG


def _prepare(prepare: Callable[[], None]) -> None:
    try:
        prepare()
    except Exception:  # noqa: BLE001
        # It only saves time; what is wrong shows again when the robot is made safe.
        traceback.print_exc()


def _issue_safe_action(who: str, make_safe: MakeSafe) -> None:
    async def once() -> None:
        async with asyncio.timeout(SAFE_LIMIT_S):
            await make_safe()

    for attempt in range(1, SAFE_ATTEMPTS + 1):
        try:
            asyncio.run(once())
        except Exception as err:  # noqa: BLE001 (tried again whatever fails)
            _say(f'{who}: safe action, attempt {attempt} of {SAFE_ATTEMPTS}: {err!r}')
        else:
            _say(f'{who}: safe action issued')
            return


def _say(text: str) -> None:
    # Straight to the descriptor: a thread that hangs may hold a lock of logging.
    os.write(2, f'[{os.getpid()}] {text}\n'.encode())


def _leave(code: int) -> NoReturn:
    """End the process at once, without waiting for threads."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
