from __future__ import annotations

import asyncio

import pytest

from timely_llm_ros.virtual_time import run_virtual


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


def test_timers_of_one_moment_are_called_in_the_order_in_which_they_were_set() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        called: list[int] = []
        for number in range(20):
            loop.call_at(1.0, called.append, number)
        await asyncio.sleep(1.0)
        return called

    assert run_virtual(main()) == list(range(20))


def test_what_is_called_as_from_another_thread_comes_in_the_next_round() -> None:
    async def main() -> list[str]:
        called: list[str] = []
        asyncio.get_running_loop().call_soon_threadsafe(called.append, 'from elsewhere')
        await asyncio.sleep(0)
        return called

    assert run_virtual(main()) == ['from elsewhere']


def test_cancelled_timers_are_neither_called_nor_kept() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        for _ in range(1000):
            loop.call_later(3600.0, pytest.fail).cancel()
        await asyncio.sleep(1.0)
        assert loop.time() == 1.0
        return len(loop._timers)  # type: ignore[attr-defined]

    assert run_virtual(main()) < 200
