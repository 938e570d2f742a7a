"""What takes a planner long, and what its log says meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines import MEASURING
from timely_llm_ros.errors import ModelLoadError, TimelyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.engines import Engine, EngineInfo
    from timely_llm_ros.nodes.planner.parameters import PlannerParameters
    from timely_llm_ros.planner import Planner
    from timely_llm_ros.planner.prompts import BackgroundFile

LOADING_PERIOD_S = 10.0
"""How often the log says that an engine still loads."""


async def start_within(
    planner: Planner,
    engine: Engine,
    parameters: PlannerParameters,
    say: Callable[[str], object],
) -> EngineInfo:
    """Start the planner's engine, and say every now and then that it still loads.

    Raises:
        ModelLoadError: It cannot be loaded, or takes longer than ``load_limit_s``.
    """
    loop, name = asyncio.get_running_loop(), parameters.engine.name
    started_s = loop.time()

    async def tell() -> None:
        # An engine that is given up still takes a while to close.
        while loop.time() - started_s + LOADING_PERIOD_S < parameters.load_limit_s:
            await asyncio.sleep(LOADING_PERIOD_S)
            say(f'engine {name}: still {engine.doing} after {loop.time() - started_s:.0f} s')

    telling = asyncio.create_task(tell(), name='still loading')
    try:
        async with asyncio.timeout(parameters.load_limit_s):
            return await planner.start()
    except TimeoutError as err:
        way_out = ', or profile "", with which nothing is measured'
        raise ModelLoadError(
            f'engine {name!r}: still {engine.doing} after {parameters.load_limit_s:g} s: expected '
            'it to take no longer than the parameter load_limit_s says; set a longer one'
            f'{way_out if engine.doing == MEASURING else ""}'
        ) from err
    finally:
        telling.cancel()


async def work_off(planner: Planner, file: BackgroundFile, log: Any) -> None:
    """Have a file's prompts answered in idle time; ``log`` is the node's."""
    log.info(f'background: {file.done} of {file.total} prompts have their answers')
    try:
        await file.run(planner)
    except TimelyError as err:
        # rclpy's logger has no exception().
        log.error(f'background: {file.done} of {file.total} prompts: {err}')  # noqa: TRY400
    else:
        log.info(f'background: all {file.total} prompts have their answers')
