"""The simulated driver and the registry of drivers."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.drivers import (
    DRIVERS,
    SimulatedDriver,
    SimulatedOptions,
    create_driver,
    read_options,
)
from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError, SkillFailedError
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.testing import EXACT_SCENE, EXACT_SKILLS
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.skills.statements import Call

TELLO = find_skill_set('tello')


def call(text: str) -> Call:
    (statement,) = parse(text, EXACT_SKILLS, EXACT_SCENE)
    return statement  # type: ignore[return-value]


def durations_s(seed: int, **options: Any) -> list[float]:
    async def main() -> list[float]:
        driver, times_s = SimulatedDriver(TELLO, SimulatedOptions(seed=seed, **options)), []
        await driver.connect()
        for statement in parse('takeoff;move_forward(100);land;' * 5, TELLO, ()):
            before_s = asyncio.get_running_loop().time()
            await driver.execute(statement, EXACT_SCENE)  # type: ignore[arg-type]
            times_s.append(asyncio.get_running_loop().time() - before_s)
        return times_s

    return run_virtual(main())


def test_times_vary_with_the_seed_and_only_with_it() -> None:
    assert durations_s(1) == durations_s(1)
    assert durations_s(1) != durations_s(2)
    assert len({round(time_s, 9) for time_s in durations_s(1)[::3]}) == 5
    assert durations_s(1, time_scale=0.5) == pytest.approx([t / 2 for t in durations_s(1)])
    # A take-off takes 4 s, give or take the model's variation.
    assert all(2.0 < time_s < 6.0 for time_s in durations_s(1)[::3])


def test_the_journal_tells_what_the_body_was_told(tmp_path: Path) -> None:
    path = tmp_path / 'journal'
    options = SimulatedOptions(journal_path=str(path))

    async def main() -> None:
        driver = SimulatedDriver(EXACT_SKILLS, options)
        await driver.connect()
        await driver.execute(call('act(100);'), EXACT_SCENE)
        cut = asyncio.ensure_future(driver.execute(call('act(500);'), EXACT_SCENE))
        await asyncio.sleep(0.2)
        cut.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cut
        await driver.safe()
        await driver.close()
        again = SimulatedDriver(EXACT_SKILLS, options)
        await again.connect()
        await again.safe()
        await again.close()

    run_virtual(main())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line['event'], line['call']) for line in lines] == [
        ('start', 'act(100)'), ('end', 'act(100)'), ('start', 'act(500)'),
        ('safe', 'halt'), ('safe', 'halt'),
    ]  # fmt: skip
    assert [round(line['t'], 6) for line in lines] == [0, 0.1, 0.1, 0.3, 0.3]


def test_blocking_skills_return_what_they_declare() -> None:
    async def main() -> None:
        driver = SimulatedDriver(EXACT_SKILLS, SimulatedOptions(seed=3))
        await driver.connect()
        values = [await driver.execute(call('look(cup_1);'), EXACT_SCENE) for _ in range(50)]
        assert set(values) == {True, False}
        assert sum(map(bool, values)) > 25
        assert await driver.execute(call('act(1);'), EXACT_SCENE) is None

    run_virtual(main())


def test_failures_come_as_often_as_asked_for() -> None:
    async def main() -> None:
        driver = SimulatedDriver(EXACT_SKILLS, SimulatedOptions(failure_probability=1.0))
        await driver.connect()
        with pytest.raises(SkillFailedError, match=r'act\(1000\): simulated failure'):
            await driver.execute(call('act(1000);'), EXACT_SCENE)
        assert asyncio.get_running_loop().time() == 0.5

    run_virtual(main())


def test_a_robot_that_is_not_connected_does_nothing() -> None:
    async def main() -> None:
        driver = SimulatedDriver(EXACT_SKILLS)
        with pytest.raises(RobotUnavailableError):
            await driver.execute(call('act(1);'), EXACT_SCENE)
        with pytest.raises(RobotUnavailableError):
            await driver.safe()

    run_virtual(main())


@pytest.mark.parametrize(
    ('options', 'text'),
    [
        ({'time_scale': -1}, 'time_scale -1'),
        ({'time_scale': float('nan')}, 'time_scale nan'),
        ({'failure_probability': 2}, 'failure_probability 2'),
        ({'wings': 3}, "driver 'simulated': option 'wings': expected one of seed, time_scale"),
        ({'seed': 1.5}, r'seed 1\.5: expected a whole number'),
        ({'seed': True}, 'seed True: expected a whole number'),
        ({'time_scale': 'slow'}, "time_scale 'slow': expected a number"),
        ({'journal_path': None}, 'journal_path None: expected a text'),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        read_options('simulated', options)


def test_drivers_by_name(tmp_path: Path) -> None:
    options = read_options('simulated', {'seed': 1, 'time_scale': 2})
    assert options == SimulatedOptions(seed=1, time_scale=2.0)
    assert isinstance(create_driver(EXACT_SKILLS, options), SimulatedDriver)
    with pytest.raises(ConfigurationError, match=f"'unicorn': expected one of .*{min(DRIVERS)}"):
        read_options('unicorn', {})
    nowhere = str(tmp_path / 'no' / 'such' / 'folder')
    driver = create_driver(EXACT_SKILLS, SimulatedOptions(journal_path=nowhere))
    with pytest.raises(ConfigurationError, match='journal'):
        asyncio.run(driver.connect())


def test_options_that_are_not_given_are_those_of_the_base() -> None:
    base = SimulatedOptions(seed=7, time_scale=2.0)
    assert read_options('simulated', {'seed': 1}, base) == SimulatedOptions(seed=1, time_scale=2.0)
    assert read_options('simulated', {}, base) == base


def test_an_option_without_a_default_has_to_be_given() -> None:
    with pytest.raises(ConfigurationError, match="'poses_file': is missing: expected a text"):
        read_options('trajectory', {})
