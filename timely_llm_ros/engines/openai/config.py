"""The options of the openai engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from timely_llm_ros.engines.config import ModelConfig
from timely_llm_ros.engines.openai.options import ServerOptions
from timely_llm_ros.options import group


@dataclass(frozen=True, kw_only=True)
class OpenAIConfig(ModelConfig):
    """Options of :class:`OpenAIEngine`."""

    name: ClassVar[str] = 'openai'

    servers: ServerOptions = group(ServerOptions, prefix='server_')
