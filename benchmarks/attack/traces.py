"""The traces of recorders that have ended: the shipped command opens each, clients are compared."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.attack.hostile import SIGNED
from benchmarks.attack.rules import Breach, lost_from_trace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.attack.fleet import Fleet, Run

REFUSED, ENDED = 1, 4
STATUSES = {4: 'succeeded', 5: 'canceled', 6: 'aborted'}

JOIN_S = 10.0
"""After this time a recorder that was started hears everything, if it was quick to record (s)."""

MEET_S = 5.0
"""After this time everybody has met a recorder that records, or a planner that the clients have met
(s)."""

LOST_S = 1.5
"""How much a trace lacks of the time before its recorder was killed, or its disk was full (s)."""

WAY_S = 0.5
"""How much later than clients a recorder may hear (s)."""

LIMIT_S = 120.0
"""How long opening a trace may take (s)."""

KEPT_BYTES = 8 << 20
"""A file up to this size is kept, to be damaged."""


async def check_trace(
    fleet: Fleet, run: Run, folder: Path, full: Sequence[tuple[float, float]]
) -> list[Breach]:
    """Open the trace that a run of the recorder left, compare it with clients and remove it."""
    ended_s = run.ended_s or time.monotonic()
    command = [sys.executable, '-m', 'lrtrace', 'cat', str(folder), '/task_events']
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=1 << 24
    )
    assert process.stdout is not None
    assert process.stderr is not None
    told: dict[str, str] = {}
    try:
        async with asyncio.timeout(LIMIT_S):
            while line := await process.stdout.readline():
                message = json.loads(line)['message']
                if message['error_msg'] == SIGNED:
                    continue
                plan = bytes(message['plan_id']['uuid']).hex()
                if message['event'] == ENDED:
                    told[plan] = STATUSES.get(message['status'], 'unknown')
                elif message['event'] == REFUSED:
                    told[plan] = 'aborted'
            errors = await process.stderr.read()
            await process.wait()
    except TimeoutError:
        process.kill()
        errors = f'no end within {LIMIT_S:g} s'.encode()
    breaches = []
    if process.returncode != 0 and ended_s - run.began_s > JOIN_S:
        what = f'{folder.name}: {process.returncode}: {errors[-300:].decode()}'
        breaches.append(Breach(ended_s, 'trace opens', what))
    # From the moment at which the disk was full a recorder has nothing more to say.
    ends_s = [began_s for began_s, _ in full if run.began_s < began_s < ended_s]
    asked_s = run.wanted_s or ended_s
    last_s = min([asked_s - (LOST_S if run.code else WAY_S), *(at_s - LOST_S for at_s in ends_s)])
    tasks = list(fleet.tasks.values())
    planners = [other for other in fleet.runs if other.name == 'planner']
    deaf = [(one.began_s, (one.met_s or ended_s) + MEET_S) for one in planners]
    joined_s = max(run.began_s + JOIN_S, (run.up_s or ended_s) + MEET_S)
    breaches += lost_from_trace(told, tasks, joined_s, last_s, deaf)
    _keep(folder, fleet.folder / 'kept')
    return breaches


def _keep(trace: Path, kept: Path) -> None:
    kept.mkdir(exist_ok=True)
    for file in trace.glob('*.mcap'):
        if file.stat().st_size < KEPT_BYTES:
            for older in kept.iterdir():
                older.unlink()
            shutil.copy(file, kept / 'trace.mcap')
    shutil.rmtree(trace)
