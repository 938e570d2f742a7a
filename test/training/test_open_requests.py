"""Tasks that leave open what to do, and how long the planner's drawn plans for them are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip('torch')

from timely_llm_ros.cli.main import main
from timely_llm_ros.engines.tokens.model_files import find_model
from timely_llm_ros.engines.tokens.sampling import Sampling
from timely_llm_ros.engines.torch.compute.model import load_model
from timely_llm_ros.prediction.lengths.probe import read_probe
from timely_llm_ros.prediction.lengths.rlp import read_rlp
from timely_llm_ros.prediction.lengths.rlp_prompt import compress_prompt
from timely_llm_ros.sample_tasks.scenes import is_held_out
from timely_llm_ros.training.length_samples import generate_samples
from timely_llm_ros.training.open_requests import DRAWN, WORDINGS, draw_open_requests

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines

MODEL = find_model('timely-planner')


def test_equal_seeds_give_equal_tasks_and_parts_share_none() -> None:
    trained = list(draw_open_requests(12, 3, 'trained'))
    assert trained == list(draw_open_requests(12, 3, 'trained'))
    assert trained != list(draw_open_requests(12, 4, 'trained'))
    held_out = list(draw_open_requests(12, 3, 'held_out'))
    assert not any(is_held_out(it.scene) for it in trained)
    assert all(is_held_out(it.scene) for it in held_out)
    assert not set(WORDINGS['trained']) & set(WORDINGS['held_out'])
    assert all(16 <= len(it.scene.objects) <= 48 for it in [*trained, *held_out])
    ids = {it.generation_id for it in [*trained, *held_out]}
    assert len(ids) == 24


def test_one_prompt_has_plans_of_several_lengths_where_tokens_are_drawn() -> None:
    loaded = load_model(MODEL, max_kv_tokens=16384)
    requests = list(draw_open_requests(4, 5, 'held_out', sizes=(16, 20)))
    many = [replace(it, generation_id=f'{n}/{it.generation_id}') for it in requests for n in 'abcd']
    spreads = {}
    for name, sampling in (('greedy', None), ('drawn', Sampling(2.0))):
        lengths: dict[str, set[int]] = {}
        for sample in generate_samples(loaded, iter(many), sampling=sampling).values():
            lengths.setdefault(sample.prompt.body, set()).add(sample.length)
        spreads[name] = [len(it) for it in lengths.values()]
    assert max(spreads['greedy']) == 1
    assert max(spreads['drawn']) > 1


def test_predictors_learn_from_drawn_plans_of_open_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ['--tasks', 'open', '--temperature', '1', '-o', str(tmp_path), '--epochs', '1']
    plans = str(tmp_path / 'plans.npz')
    assert main(['train-probe', '--plans', '20', '--keep-samples', plans, *common]) == 0
    assert main(['train-rlp', '--samples', plans, *common]) == 0
    for name in ('probe', 'rlp'):
        about = json.loads((tmp_path / f'{name}.json').read_text())['about']
        assert (about['tasks'], about['temperature']) == ('open', 1.0)
    assert main(['train-probe', '--temperature', '-1', '-o', str(tmp_path)]) != 0
    assert '--temperature -1' in capsys.readouterr().err


def test_the_shipped_ones_know_more_than_the_mean() -> None:
    folder = f'{MODEL}/predictors_open'
    probe, rlp = read_probe(folder), read_rlp(folder)
    found = generate_samples(
        load_model(MODEL, max_kv_tokens=16384),
        draw_open_requests(12, 21, 'held_out', sizes=(16, 24)),
        layers=[probe.settings.layer],
        sampling=DRAWN,
    )
    samples = list(found.values())
    watched, mean = [], np.mean([it.length for it in samples])
    forecasts = [rlp.predict(it.prompt.fixed, it.prompt.body) for it in samples]
    assert all(10 < it.mean < 80 for it in forecasts)
    plain = []
    for sample, forecast in zip(samples, forecasts, strict=True):
        ages = np.arange(1, sample.length)
        left = sample.length - ages
        _, shares = probe.follow(sample.states[:-1, 0].astype(np.float32), forecast=forecast)
        watched.append(np.abs(probe.filter.left(shares, ages) - left))
        plain.append(np.abs(np.maximum(mean - ages, 0) - left))
    assert np.concatenate(watched).mean() < 0.8 * np.concatenate(plain).mean()


def test_where_nothing_is_named_the_predictor_reads_the_scene() -> None:
    request = next(iter(draw_open_requests(1, 5, 'held_out')))
    texts = load_model(MODEL, max_kv_tokens=1024).texts
    body, fixed = request.prompt.body, request.prompt.fixed
    task = body[body.rindex('task: ') :].strip()
    ids = {
        scene: compress_prompt(fixed, body, texts.encode, 96, scene=scene)
        for scene in (False, True)
    }
    assert len(ids[False]) < len(ids[True]) <= 96
    read = b''.join(map(texts.bytes_of, ids[True])).decode()
    assert body.splitlines()[0] in read
    assert read.endswith(task.splitlines()[0])
