from __future__ import annotations

from tools.coverage_by_room import by_room


def measured(statements: int, reached: int) -> dict[str, dict[str, int]]:
    return {'summary': {'num_statements': statements, 'covered_lines': reached}}


def test_files_count_for_their_room() -> None:
    files = {
        'lrtrace/run.py': measured(20, 5),
        'lrtrace/report/__init__.py': measured(0, 0),
        'timely_llm_ros/engines/torch/compute/model.py': measured(900, 90),
        'timely_llm_ros/engines/engine.py': measured(100, 10),
    }
    assert [line.split() for line in by_room({'files': files}).splitlines()] == [
        ['room', 'statements', 'reached'],
        ['lrtrace', '20', '25.0%'],
        ['lrtrace/report', '0', '100.0%'],
        ['timely_llm_ros/engines', '1,000', '10.0%'],
        ['total', '1,020', '10.3%'],
    ]
