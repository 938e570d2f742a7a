"""The options of the engine ``ray``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from timely_llm_ros.engines.config import EngineConfig, LocalOptions, ModelConfig, StepOptions
from timely_llm_ros.engines.torch import TorchConfig
from timely_llm_ros.engines.vllm import VllmConfig
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.options import check_options, group, option

_KINDS: dict[str, type[TorchConfig] | type[VllmConfig]] = {
    kind.name: kind for kind in (TorchConfig, VllmConfig)
}


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """Where the replicas are, and what each one is.

    Raises:
        ConfigurationError: A value is out of range.
    """

    address: str = option(
        'auto',
        'The Ray cluster, host:port; "auto" for the one of this machine, which '
        '`timely-llm cluster up` starts or joins.',
    )
    app: str = option(
        'timely-llm', 'Name of the replicas on the cluster; planners with one name share them.'
    )
    engine: str = option('torch', 'Which engine each replica is.', choices=tuple(_KINDS))
    replicas: int = option(
        2,
        'How many replicas to start where the cluster has none of that name; '
        '`timely-llm cluster scale` changes it later.',
        minimum=1,
        maximum=1024,
    )
    most_replicas: int = option(
        0,
        'Up to how many replicas there may be where work asks for more than `ray_replicas`; 0: as '
        'many as were started, or as `timely-llm cluster scale` says.',
        minimum=0,
        maximum=1024,
    )
    cpus: float = option(1.0, 'Cores that a replica takes.', minimum=0.0, maximum=1024.0)
    gpus: float = option(0.0, 'GPUs that a replica takes.', minimum=0.0, maximum=64.0)
    start_limit_s: float = option(
        300.0, 'How long the first replica may take to be there (s).', minimum=1.0, maximum=86400.0
    )
    give_up_s: float = option(
        30.0,
        'With no replica for so long, every generation ends with an error (s).',
        minimum=0.0,
        maximum=86400.0,
    )

    def __post_init__(self) -> None:
        check_options(self)
        if 0 < self.most_replicas < self.replicas:
            raise ConfigurationError(
                f'most_replicas {self.most_replicas}: expected 0, or {self.replicas} (replicas) or '
                'more'
            )


@dataclass(frozen=True, kw_only=True)
class RayConfig(StepOptions, LocalOptions, ModelConfig):
    """Options of :class:`RayEngine`: those of each replica, and those of the cluster.

    They make the replicas where there are none yet. Replicas that are there keep their own.

    Attributes:
        given: The options of each replica's engine, in place of all the others here.
    """

    name: ClassVar[str] = 'ray'

    device: str = option('cpu', 'Where torch computes, e.g. cpu or cuda.')
    ray: RayOptions = group(RayOptions(), prefix='ray_')
    given: EngineConfig | None = None

    @property
    def replica(self) -> EngineConfig:
        """The options of each replica's engine."""
        if self.given is not None:
            return self.given
        kind = _KINDS[self.ray.engine]
        taken = {item.name for item in fields(kind)} & {item.name for item in fields(self)}
        return kind(**{name: getattr(self, name) for name in taken})
