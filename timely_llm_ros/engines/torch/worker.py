"""The torch engine's worker process: one loop of commands, steps and events.

The engine starts it, as ``python -m timely_llm_ros.engines.torch.worker FD PARENT OPTIONS``. It
ends when the other end of its socket is closed; the kernel ends it if its parent dies while it
computes.
"""

from __future__ import annotations

import select
import signal
import socket
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import Resume, Submit
from timely_llm_ros.engines.engine import MEASURING
from timely_llm_ros.engines.torch.config import TorchConfig
from timely_llm_ros.engines.torch.wire import (
    FrameReader,
    Stop,
    WorkerBusy,
    WorkerFailed,
    WorkerReady,
    frame,
)
from timely_llm_ros.errors import ModelLoadError
from timely_llm_ros.processes import end_with_parent

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.core import EvictionMethod, LanedCore, Output
    from timely_llm_ros.engines.torch.compute import LoadedModel, TorchBackend
    from timely_llm_ros.engines.torch.lengths import WorkerLengths
    from timely_llm_ros.prediction.times import ExecutionTimeModel

COARSE_ROUNDS = 5
"""Rounds of the profile that a worker measures: the fewest that give a margin of 95 %."""

MEASURE_S, REQUESTS_S = 20.0, 10.0
"""About how long measuring may take at most (s): the model alone, then whole requests."""


class Link:
    """The worker's end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._reader = FrameReader()
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)
        self._waiting: list[Command | Stop] = []
        self.closed = False

    def receive(self, timeout_s: float | None) -> list[Command | Stop]:
        """Return the commands that are there; wait for one up to ``timeout_s``, None for ever."""
        timeout_ms = None if timeout_s is None else max(0.0, 1000.0 * timeout_s)
        self._read(0.0 if self._waiting else timeout_ms)
        commands, self._waiting = self._waiting, []
        return commands

    def peek(self) -> list[Command | Stop]:
        """Return the commands that are there and leave them to be received; never waits."""
        self._read(0.0)
        return self._waiting

    def _read(self, timeout_ms: float | None) -> None:
        while not self.closed and self._poll.poll(timeout_ms):
            data = self._socket.recv(1 << 20)
            if not data:
                self.closed = True
                break
            self._waiting.extend(self._reader.push(data))
            # A frame may come in pieces; what is complete must not wait for the rest.
            timeout_ms = 0.0

    def send(self, messages: list[Any]) -> None:
        """Send messages as one frame."""
        if messages:
            self._socket.sendall(frame(messages))


def serve(
    link: Link,
    core: LanedCore,
    backend: TorchBackend,
    lengths: WorkerLengths,
    *,
    min_step_s: float = 0.0,
) -> None:
    """Run commands and steps until the other end stops or goes away."""
    now = time.monotonic
    idle = True
    while True:
        due_s = core.state_due_s
        wait_s = 0.0 if not idle else None if due_s is None else due_s - now()
        for command in link.receive(wait_s):
            if isinstance(command, Stop):
                return
            core.apply(command)
            if isinstance(command, Submit):
                lengths.submitted(command.request)
        if link.closed:
            return
        lengths.before_step()
        started_s = now()
        plan = core.plan(started_s)
        # What was written ahead of a value that came must not wait for the step.
        if ready := core.take_events():
            link.send(ready)
            lengths.after_step(None, backend, ready)
        idle = plan is None and not core.prepare()
        if plan is not None:
            outputs: list[Output] | None
            if core.may_interrupt(plan):
                outputs = backend.advance(plan, lambda: _robot_waits(link, core))
            else:
                outputs = backend.execute(plan)
            ended_s = now()
            if outputs is None:
                core.interrupt(plan, started_s, ended_s)
                continue
            if ended_s - started_s < min_step_s:
                time.sleep(started_s + min_step_s - ended_s)
                ended_s = now()
            core.complete(plan, outputs, started_s, ended_s)
        events: list[Any] = core.take_events()
        state = core.take_state(now())
        if state is not None:
            events.append(state)
        link.send(events)
        lengths.after_step(None if plan is None or plan.background else plan, backend, events)


def _robot_waits(link: Link, core: LanedCore) -> bool:
    """Return whether a command is there that must not wait for the background.

    Such a command gives a robot's generation something to do, or ends the worker.
    """
    return link.closed or any(_concerns_robots(command, core) for command in link.peek())


def _concerns_robots(command: Command | Stop, core: LanedCore) -> bool:
    match command:
        case Submit(request):
            return not request.background
        case Resume(generation_id):
            return core.serves_robot(generation_id)
        case Stop():
            return True
        case _:
            # A generation that ends, waits or is due at another time needs no step for that.
            return False


def warm_up(loaded: LoadedModel) -> None:
    """Serve one small plan and throw it away, so that the first task finds everything set up."""
    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.core import CoreOptions, EngineCore
    from timely_llm_ros.engines.torch.compute import TorchBackend
    from timely_llm_ros.skills import ConstantDuration, Prompt, Scene, Skill, SkillSet
    from timely_llm_ros.utility import NORMAL

    backend = TorchBackend(loaded)
    core = EngineCore(backend, CoreOptions(max_kv_tokens=loaded.pool.capacity))
    skill = Skill('wait', 'does nothing', (), ConstantDuration(1.0))
    request = GenerationRequest(
        'warm-up',
        Prompt('nothing to do', ' but to wait'),
        SkillSet('warm-up', 'waits', {'wait': skill}, 'wait'),
        Scene(),
        NORMAL,
        0.0,
        max_tokens=24,
    )
    core.apply(Submit(request))
    while (plan := core.plan(0.0)) is not None:
        core.complete(plan, backend.execute(plan), 0.0, 0.001)
        frame([*core.take_events(), core.state(0.0)])
    backend.drop_prefix(request.prompt.key)


def measured(
    loaded: LoadedModel, options: TorchConfig, eviction: EvictionMethod | None
) -> ExecutionTimeModel:
    """Measure a coarse profile of a few sizes and requests.

    The model that ships takes some three seconds. One that would take far longer is measured
    briefly, and as often as there is time for; with too few rounds there is no margin.
    """
    from timely_llm_ros.engines.torch.compute import (
        BRIEF_STEPS,
        STEPS,
        TorchStopwatch,
        measure_requests,
    )
    from timely_llm_ros.prediction.times import ProfilePlan, expected_s, fit_profile, measure

    end_s = time.monotonic() + MEASURE_S
    stopwatch = TorchStopwatch(loaded, prefill_chunk=options.chunk)
    batches = tuple(sorted({1, min(options.max_running, 8)}))
    longest = min(1024, stopwatch.longest // 2, stopwatch.longest // batches[-1] - 1)
    sizes = tuple(sorted({max(1, longest // 16), max(2, longest // 4), max(3, longest)}))
    plan = ProfilePlan(sizes, sizes, batches, COARSE_ROUNDS)
    brief = TorchStopwatch(loaded, prefill_chunk=options.chunk, steps=BRIEF_STEPS)
    if expected_s(plan, brief, steps=STEPS) > MEASURE_S:
        plan, stopwatch = plan.brief(), brief
    times = fit_profile(measure(plan, stopwatch, enough=lambda: time.monotonic() > end_s))
    overhead = measure_requests(
        loaded,
        times,
        prefill_chunk=options.chunk,
        rounds=COARSE_ROUNDS,
        eviction=eviction,
        limit_s=REQUESTS_S,
    )
    times = overhead.added_to(times)
    longest = min(loaded.context_limit * batches[-1], options.max_kv_tokens)
    return times.paced(options.min_step_s, prefill_chunk=options.chunk, longest=longest)


def _run(link: Link, options: TorchConfig, started_s: float) -> None:
    # Only here, because importing torch takes seconds in which nothing else would answer.
    from timely_llm_ros.engines.core import LanedCore
    from timely_llm_ros.engines.torch.compute import TorchBackend, find_method, load_model
    from timely_llm_ros.engines.torch.lengths import WorkerLengths

    loaded = load_model(
        options.model_path,
        max_kv_tokens=options.max_kv_tokens,
        device=options.device,
        dtype=options.dtype,
        threads=options.threads,
    )
    warm_up(loaded)
    method = None if loaded.sliding or not options.eviction else find_method(options.eviction)
    backend = TorchBackend(
        loaded,
        observations=options.mode != 'whole_plan',
        eviction=method,
        sampling=options.sampling,
        # A model that is slowed down to its steps' length has no layers to stop at.
        pauses=not options.min_step_s,
    )
    core = LanedCore(
        backend,
        options.core_options(context_limit=loaded.context_limit),
        drafter=backend.drafter,
    )
    times = None
    if options.measure:
        link.send([WorkerBusy(MEASURING)])
        times = measured(loaded, options, method)
    lengths = WorkerLengths.load(options.predictors, core, loaded)
    info = replace(
        loaded.info,
        context_tokens=min(loaded.context_limit, options.max_kv_tokens),
        load_s=time.monotonic() - started_s,
        eviction='' if method is None else options.eviction or '',
        times=times,
        warms=True,
        ranks_plans=bool(options.predictors),
    )
    link.send([WorkerReady(info)])
    serve(link, core, backend, lengths, min_step_s=options.min_step_s)


def main(arguments: list[str]) -> int:
    """Run the worker."""
    started_s = time.monotonic()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL, parent_pid=int(arguments[1]))
    options = TorchConfig.from_json(arguments[2])
    with socket.socket(fileno=int(arguments[0])) as end:
        link = Link(end)
        try:
            _run(link, options, started_s)
        except (BrokenPipeError, ConnectionResetError):
            return 0
        except ModuleNotFoundError as err:
            text = (
                f'{err}; expected the packages of the extra "torch" in {sys.executable}, see '
                'docs/how_to/install.md, or another engine'
            )
            link.send([WorkerFailed(text, True)])
            return 1
        except Exception as err:  # noqa: BLE001 -- whatever it is, the engine is told before the end
            text = str(err) if isinstance(err, ModelLoadError) else f'{type(err).__name__}: {err}'
            link.send([WorkerFailed(text, isinstance(err, ModelLoadError))])
            return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
