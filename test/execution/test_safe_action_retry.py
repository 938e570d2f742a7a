"""A safe action that is owed is tried until it is taken, and no longer."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.errors import RobotUnavailableError
from timely_llm_ros.execution.safe_action_retry import PERIOD_S, SafeActionRetry
from timely_llm_ros.virtual_time import run_virtual


@given(st.integers(0, 20), st.integers(1, 3))
def test_it_tries_until_it_is_taken(refusals: int, begins: int) -> None:
    tries: list[float] = []

    async def attempt() -> None:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) <= refusals:
            raise RobotUnavailableError('not there')

    async def main() -> None:
        retry = SafeActionRetry(attempt)
        for _ in range(begins):
            retry.begin()
        await asyncio.sleep((refusals + 5) * PERIOD_S)
        assert len(tries) == refusals + 1
        retry.begin()
        await asyncio.sleep(2.5 * PERIOD_S)
        assert len(tries) == refusals + 2

    run_virtual(main())
    gaps = [later - earlier for earlier, later in pairwise(tries[: refusals + 1])]
    assert all(gap <= PERIOD_S + 1e-6 for gap in gaps)


def test_its_end_ends_an_attempt_too() -> None:
    begun: list[bool] = []

    async def attempt() -> None:
        begun.append(True)
        await asyncio.sleep(1000.0)

    async def main() -> None:
        retry = SafeActionRetry(attempt)
        assert not await retry.end()
        retry.begin()
        await asyncio.sleep(2 * PERIOD_S)
        assert await retry.end()
        assert not await retry.end()
        assert begun == [True]
        assert asyncio.get_running_loop().time() < 1.0

    run_virtual(main())
