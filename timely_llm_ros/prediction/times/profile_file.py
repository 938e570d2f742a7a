"""A profile: what was measured and fitted for one machine and model, as a JSON file."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.times.execution_time import (
    DecodeCoefficients,
    ExecutionTimeModel,
    Margin,
)

FORMAT = 'timely_llm_profile'
"""What the file says it is."""

VERSION = 1
"""Of the format."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a profile file holds.

    Attributes:
        times: The fitted model.
        kv_capacity_tokens: Tokens of KV that the engine was given.
        about: Model, machine, date, errors and measurements, for whoever reads the file.
    """

    times: ExecutionTimeModel
    kv_capacity_tokens: int
    about: dict[str, Any] = field(default_factory=dict)


def read_profile(path: str | Path) -> Profile:
    """Read a profile file.

    Raises:
        ConfigurationError: It cannot be read, or is no profile.
    """
    try:
        content = json.loads(Path(path).read_text(encoding='utf-8'))
    except (OSError, ValueError) as err:
        raise ConfigurationError(f'profile {str(path)!r} cannot be read: {err}') from err
    if not isinstance(content, dict) or content.get('format') != FORMAT:
        raise ConfigurationError(
            f'profile {str(path)!r}: expected a file that `timely-llm profile` wrote'
        )
    if content.get('version') != VERSION:
        raise ConfigurationError(
            f'profile {str(path)!r}, version {content.get("version")!r}: expected {VERSION}'
        )
    try:
        times = ExecutionTimeModel(
            **{name: float(content['prefill'][key]) for name, key in _PREFILL.items()},
            decode=tuple(
                DecodeCoefficients(
                    int(entry['batch']), float(entry['kv_token_s']), float(entry['step_s'])
                )
                for entry in content['decode']
            ),
            margins=tuple(
                Margin(float(entry['coverage']), float(entry['prefill']), float(entry['step']))
                for entry in content['margins']
            ),
            evicting_token_s=float(content.get('evicting_token_s', 0.0)),
        )
        capacity = int(content['kv_capacity_tokens'])
    except (KeyError, TypeError, ValueError) as err:
        raise ConfigurationError(
            f'profile {str(path)!r}: {type(err).__name__}: {err}; expected the fields prefill, '
            'decode, margins and kv_capacity_tokens'
        ) from err
    except ConfigurationError as err:
        raise ConfigurationError(f'profile {str(path)!r}: {err}') from err
    if capacity < 1:
        raise ConfigurationError(
            f'profile {str(path)!r}: kv_capacity_tokens {capacity}: expected at least 1'
        )
    return Profile(times, capacity, {k: v for k, v in content.items() if k not in _FITTED})


_PREFILL = {
    'prefill_square_s': 'square_s',
    'prefill_token_s': 'token_s',
    'prefill_s': 'constant_s',
}
_FITTED = (
    'format',
    'version',
    'prefill',
    'decode',
    'margins',
    'evicting_token_s',
    'kv_capacity_tokens',
)


def write_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile file; whatever happens, the file is whole or as it was before.

    Raises:
        ConfigurationError: It cannot be written.
    """
    times = asdict(profile.times)
    content = {
        'format': FORMAT,
        'version': VERSION,
        **{key: value for key, value in profile.about.items() if key not in _FITTED},
        'kv_capacity_tokens': profile.kv_capacity_tokens,
        'prefill': {key: times[name] for name, key in _PREFILL.items()},
        **{name: times[name] for name in ('decode', 'margins', 'evicting_token_s')},
    }
    target = Path(path)
    beside = target.with_name(f'.{target.name}.{os.getpid()}')
    try:
        beside.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')
        beside.replace(target)
    except OSError as err:
        raise ConfigurationError(f'profile {str(path)!r} cannot be written: {err}') from err
    finally:
        # It is still there where it did not take the target's place.
        with contextlib.suppress(OSError):
            beside.unlink()
