from __future__ import annotations

import asyncio

import pytest
from virtual_time import run_virtual


def test_sleep_takes_exactly_its_time_and_no_more() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        seen = [loop.time()]
        for duration_s in (0.1, 3600.0, 0.2):
            await asyncio.sleep(duration_s)
            seen.append(loop.time())
        return seen

    assert run_virtual(main()) == [0.0, 0.1, 3600.1, 3600.1 + 0.2]


def test_a_deadlock_is_an_error() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match='nothing is scheduled'):
        run_virtual(main())
