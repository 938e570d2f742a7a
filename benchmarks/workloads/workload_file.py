"""Workloads as YAML or JSON files; docs/reference/workloads.md explains every key."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import yaml

from timely_llm_ros.errors import ConfigurationError, InvalidTaskError
from timely_llm_ros.evaluation import (
    FORMAT,
    MAX_TASKS,
    VERSION,
    SegmentShape,
    Workload,
    WorkloadTask,
    dumps,
)
from timely_llm_ros.utility import TimeUtility

_KEYS = ('format', 'version', 'name', 'seed', 'robots', 'groups', 'tasks')


def write_workload(workload: Workload, path: str | Path) -> None:
    """Write a workload to a file."""
    Path(path).write_text(dumps(workload), encoding='utf-8')


def read_workload(path: str | Path) -> Workload:
    """Read a workload from a YAML or JSON file.

    Raises:
        ConfigurationError: It cannot be read or is not valid; names the file, the key, the value
            and what was expected.
    """
    try:
        text = Path(path).read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as err:
        raise ConfigurationError(f'workload {str(path)!r}: cannot be read: {err}') from err
    return loads(text, source=str(path))


def loads(text: str, *, source: str = '<string>') -> Workload:
    """Read a workload from YAML or JSON text.

    Raises:
        ConfigurationError: It is not valid; ``source`` is what the message calls it.
    """
    try:
        content = json.loads(text) if text.lstrip().startswith('{') else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as err:
        raise ConfigurationError(f'{source}: expected YAML or JSON: {err}') from err
    return _Reader(source).workload(content)


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source

    def workload(self, content: Any) -> Workload:
        if not isinstance(content, dict):
            raise self._error('', content, f'a mapping with the keys {", ".join(_KEYS)}')
        for key in content:
            if key not in _KEYS:
                raise self._error('', key, f'one of the keys {", ".join(_KEYS)}')
        if content.get('format') != FORMAT:
            raise self._error('format', content.get('format'), repr(FORMAT))
        if content.get('version') != VERSION:
            raise self._error('version', content.get('version'), str(VERSION))
        seed = content.get('seed')
        if seed is not None:
            seed = self._int('seed', seed, None)
        groups = self._groups(content.get('groups'))
        tasks = content.get('tasks')
        if not isinstance(tasks, list) or len(tasks) > MAX_TASKS:
            raise self._error('tasks', tasks, f'a list of at most {MAX_TASKS}')
        read = [self._task(f'tasks[{number}]', task, groups) for number, task in enumerate(tasks)]
        # Stable: tasks of one moment stay in the order in which they are written.
        read.sort(key=lambda task: task.at_s)
        return Workload(
            self._text('name', content.get('name')),
            self._int('robots', content.get('robots'), 1),
            groups,
            tuple(read),
            seed,
        )

    def _groups(self, groups: Any) -> dict[str, TimeUtility]:
        expected = 'a mapping of names to [expected_response_s, slope_per_s, peak]'
        if not isinstance(groups, dict) or not groups:
            raise self._error('groups', groups, expected)
        read = {}
        for name, values in groups.items():
            key = f'groups.{name}'
            if not isinstance(values, list) or len(values) != 3:
                raise self._error(key, values, '[expected_response_s, slope_per_s, peak]')
            numbers = [self._number(key, value, -math.inf) for value in values]
            try:
                read[self._text('groups', name)] = TimeUtility(*numbers)
            except InvalidTaskError as err:
                raise ConfigurationError(f'{self._source}: {key}: {err}') from err
        return read

    def _task(self, key: str, task: Any, groups: dict[str, TimeUtility]) -> WorkloadTask:
        expected = {'at_s', 'kind', 'group', 'segments'}
        if not isinstance(task, dict) or set(task) != expected:
            raise self._error(key, task, f'a mapping with the keys {", ".join(sorted(expected))}')
        if task['group'] not in groups:
            raise self._error(f'{key}.group', task['group'], f'one of {", ".join(groups)}')
        segments = task['segments']
        if not isinstance(segments, list) or not segments:
            raise self._error(f'{key}.segments', segments, 'a list of [tokens, execution_s]')
        shapes = []
        for index, shape in enumerate(segments):
            here = f'{key}.segments[{index}]'
            if not isinstance(shape, list) or len(shape) != 2:
                raise self._error(here, shape, '[tokens, execution_s]')
            shapes.append(SegmentShape(self._int(here, shape[0], 1), self._number(here, shape[1])))
        return WorkloadTask(
            self._number(f'{key}.at_s', task['at_s']),
            self._text(f'{key}.kind', task['kind']),
            task['group'],
            tuple(shapes),
        )

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise self._error(key, value, 'some text')
        return value

    def _int(self, key: str, value: Any, least: int | None) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._error(key, value, 'a whole number')
        if least is not None and value < least:
            raise self._error(key, value, f'at least {least}')
        return value

    def _number(self, key: str, value: Any, least: float = 0.0) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(key, value, 'a number')
        if not math.isfinite(value) or value < least:
            raise self._error(key, value, f'a finite number of at least {least:g}')
        return float(value)

    def _error(self, key: str, value: Any, expected: str) -> ConfigurationError:
        where = f'{self._source}: {key}: ' if key else f'{self._source}: '
        return ConfigurationError(f'{where}{str(value)[:60]!r}: expected {expected}')
