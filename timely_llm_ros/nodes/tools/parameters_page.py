"""The reference page of the parameters, written from their declarations.

``python -m timely_llm_ros.nodes.tools.parameters_page`` prints it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timely_llm_ros.nodes.executor import ExecutorParameters
from timely_llm_ros.nodes.planner import PlannerParameters
from timely_llm_ros.nodes.window import WindowParameters
from timely_llm_ros.ros import TYPE_NAMES, Value, declarations

if TYPE_CHECKING:
    from collections.abc import Mapping

NODES: Mapping[str, type[Any]] = {
    'planner': PlannerParameters,
    'executor': ExecutorParameters,
    'window': WindowParameters,
}
"""The parameters of each node."""


def parameters_page() -> str:
    """Return the reference page of all parameters in Markdown."""
    lines = [
        '# Parameters',
        '',
        'Written by',
        '`python -m timely_llm_ros.nodes.tools.parameters_page > docs/reference/parameters.md`.',
        '',
        'A parameter that is not fixed can be set while the node is unconfigured and takes effect',
        'when it is configured. One that is "live" can also be set at any time after that, for the',
        'next decision.',
        'Robots are given as `name:skill_set`, for example',
        '`robots: ["drone_1:tello", "arm_1:arm"]`.',
    ]
    for node, record in NODES.items():
        lines += [
            '',
            f'## {node}',
            '',
            '| name | type | default | allowed | fixed | what it does |',
            '|---|---|---|---|---|---|',
        ]
        for name, declared in declarations(record).items():
            default = declared.default
            shown: Any = list(default) if isinstance(default, tuple) else default
            cells = (
                f'`{name}`',
                TYPE_NAMES[type(default)],
                f'`{_yaml_text(shown)}`',
                declared.option.expected,
                'yes' if declared.read_only else 'live' if declared.option.live else 'no',
                declared.option.description,
            )
            lines.append('| ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines) + '\n'


def _yaml_text(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return '""' if value == '' else str(value)


if __name__ == '__main__':
    print(parameters_page(), end='')
