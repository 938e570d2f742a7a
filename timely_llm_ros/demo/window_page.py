"""The page on which the demo can be watched."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from typing import TYPE_CHECKING

from rich.text import Text

from timely_llm_ros.demo.processes import node_command

if TYPE_CHECKING:
    from rich.console import Console

    from timely_llm_ros.demo.processes import Children

CHECK_PERIOD_S = 0.2


async def show_address(children: Children, console: Console) -> None:
    """Serve the window and print its address once it is there.

    A page is not what the demo is about: it goes on without one, where websockets is not installed
    or the window ends. The window's log says why.
    """
    if importlib.util.find_spec('websockets') is None:
        return
    # Any free port, because another window or demo may have the usual one.
    window = children.start('window', node_command('window', {'port': 0}))
    window.expected_to_end = True
    while window.process.poll() is None:
        found = re.search(r'^window: (\S+)', window.log_tail(), re.MULTILINE)
        if found is not None:
            console.print(Text(f'watch   {found[1]}', style='bold'), soft_wrap=True)
            return
        await asyncio.sleep(CHECK_PERIOD_S)
    console.print(f'no page to watch: see {window.log}', style='dim')
