"""Watching hidden states and predicting from them, on real models."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from support.engines.torch_runs import Run, free_request, plan_request

from timely_llm_ros.cli.main import main
from timely_llm_ros.engines import GenerationEnded, Submit, create_engine
from timely_llm_ros.engines.tokens.model_files import find_model
from timely_llm_ros.engines.torch.compute.model import load_model
from timely_llm_ros.engines.torch.config import TorchConfig
from timely_llm_ros.engines.torch.lengths import PromptReader, StateReader
from timely_llm_ros.errors import ConfigurationError, ModelLoadError
from timely_llm_ros.prediction.lengths.length_bins import LengthBins
from timely_llm_ros.prediction.lengths.probe import (
    ProbeSettings,
    RemainingLengthProbe,
    read_probe,
)
from timely_llm_ros.prediction.lengths.response_length import LengthDistribution
from timely_llm_ros.prediction.lengths.rlp import read_rlp
from timely_llm_ros.prediction.lengths.rlp_network import BodyShape, SmallBody
from timely_llm_ros.training.length_samples import (
    draw_requests,
    generate_samples,
    read_samples,
    write_samples,
)
from timely_llm_ros.training.probe_training import calibrated, probe_errors
from timely_llm_ros.training.rlp_training import (
    RlpTraining,
    body_weights,
    build_network,
    network_scores,
    train_network,
)

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.engines import EngineEvent

pytestmark = pytest.mark.engines

MODEL = find_model('timely-planner')


def any_probe(layer: int, width: int) -> RemainingLengthProbe:
    rng = np.random.default_rng(0)
    weights = {
        'inner': rng.normal(size=(8, width)),
        'inner_bias': np.zeros(8),
        'outer': rng.normal(size=(10, 8)),
        'outer_bias': np.zeros(10),
        'frequencies': np.full(10, 0.1),
    }
    as_singles = {name: it.astype(np.float32) for name, it in weights.items()}
    return RemainingLengthProbe(ProbeSettings(layer, LengthBins(10, 80)), as_singles, {})


@pytest.mark.parametrize('fused', [True, False])
def test_watching_changes_no_token(chaotic_model: Path, fused: bool) -> None:
    ids = {}
    for watched in (False, True):
        loaded = load_model(str(chaotic_model), max_kv_tokens=4096)
        if not fused:
            # As models that are not built like Llama run: in transformers.
            from transformers import AutoModelForCausalLM

            loaded.fused = None
            loaded.model = AutoModelForCausalLM.from_pretrained(
                chaotic_model, attn_implementation=loaded.attention.name, dtype=torch.float32
            ).eval()
        reader = StateReader(loaded, any_probe(1, 64), every=2) if watched else None
        run = Run(loaded, free=True, options={'policy': 'srpt', 'max_running': 3})
        for number in range(5):
            run.core.apply(Submit(free_request(number, max_tokens=20)))
        found: dict[str, float] = {}
        while True:
            plan = run.core.plan(run.now_s)
            if plan is None:
                break
            outputs = run.backend.execute(plan)
            run.core.complete(plan, outputs, run.now_s, run.now_s + 0.005)
            run.now_s += 0.005
            for event in run.core.take_events():
                if isinstance(event, GenerationEnded):
                    run.ended[event.generation_id] = event
            if reader is not None:
                left = reader.after_step(plan, run.backend)
                run.core.refine(left)
                found |= left
        # Predictions may change the order, never a generation's text.
        ids[watched] = {name: event.token_ids for name, event in sorted(run.ended.items())}
        if watched:
            assert set(found) == set(ids[watched])
            assert all(1 <= tokens <= 320 for tokens in found.values())
    assert ids[True] == ids[False]
    assert len(ids[True]) == 5


def test_watched_states_are_those_that_transformers_computes(chaotic_model: Path) -> None:
    from transformers import AutoModelForCausalLM

    loaded = load_model(str(chaotic_model), max_kv_tokens=4096)
    tap = loaded.watch([0, 1, 2])
    run = Run(loaded, free=True, options={'max_running': 1, 'prefill_chunk': 4096})
    run.core.apply(Submit(free_request(0, max_tokens=6)))
    states = []
    while (plan := run.core.plan(run.now_s)) is not None:
        outputs = run.backend.execute(plan)
        run.core.complete(plan, outputs, run.now_s, run.now_s + 0.005)
        run.now_s += 0.005
        if run.backend.sampled[0]:
            states.append(tap.take(run.backend.sampled[1])[:, 0])
            assert (tap.rows(run.backend.sampled[1]) == states[-1][:1].numpy()).all()
    (ended,) = [event for event in run.core.take_events() if isinstance(event, GenerationEnded)]
    request = free_request(0)
    encode = loaded.texts.encode
    context = [*encode(request.prompt.fixed, beginning=True), *encode(request.prompt.body)]
    model = AutoModelForCausalLM.from_pretrained(chaotic_model, dtype=torch.float32).eval()
    inner = model.model.layers[1].register_forward_hook(lambda *called: last.append(called[-1]))
    last: list[torch.Tensor] = []
    with torch.inference_mode():
        out = model(torch.tensor([[*context, *ended.token_ids[:-1]]]), output_hidden_states=True)
    inner.remove()
    got = torch.stack(states, dim=1)
    tokens = got.shape[1]
    for layer in (0, 1):
        torch.testing.assert_close(
            got[layer], out.hidden_states[layer][0, -tokens:], rtol=1e-3, atol=1e-3
        )
    torch.testing.assert_close(got[2], last[0][0, -tokens:], rtol=1e-3, atol=1e-2)


def test_a_layer_that_is_not_there_is_refused(chaotic_model: Path) -> None:
    loaded = load_model(str(chaotic_model), max_kv_tokens=512)
    for layers in ([3], [], [1, 0], [-1]):
        with pytest.raises(ConfigurationError, match='0 to 2'):
            loaded.watch(layers)


@pytest.mark.parametrize('tokens', [1, 2, 37])
def test_numpy_computes_what_transformers_does(tokens: int) -> None:
    training = RlpTraining(size=16, longest=128, shape=BodyShape(32, 48, 2, 4, 2), seed=3)
    network = build_network(training, 50).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.3)
    ids = np.random.default_rng(tokens).integers(50, size=tokens).tolist()
    expected = network_scores(network, [ids])[0]
    got = SmallBody(training.shape, body_weights(network)).scores(ids)
    assert got == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(('size', 'body'), [(16, 'qwen2'), (None, 'qwen2'), (16, 'bert')])
def test_training_learns_what_can_be_learned(size: int | None, body: str) -> None:
    rng = np.random.default_rng(0)
    prompts = [rng.integers(20, size=rng.integers(3, 9)).tolist() for _ in range(240)]
    lengths = [20 if 7 in prompt else 90 for prompt in prompts]
    training = RlpTraining(
        size=size,
        shape=BodyShape(32, 48, 1, 4, 2),
        body=body,  # type: ignore[arg-type]
        epochs=14,
    )
    network = build_network(training, 20)
    losses: list[float] = []
    train_network(network, training, prompts, lengths, advance=losses.append)
    assert len(losses) == training.steps(len(prompts))
    assert np.mean(losses[-8:]) < 0.3 * np.mean(losses[:8])


def test_commands_train_what_the_engine_serves_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = load_model(MODEL, max_kv_tokens=8192)
    requests = list(draw_requests(40, 3, 'trained', kinds=(1, 2, 6, 9)))
    samples = list(generate_samples(loaded, iter(requests), layers=range(5)).values())
    assert [len(sample.states) for sample in samples] == [sample.length for sample in samples]
    write_samples(samples, tmp_path / 'plans.npz')
    again = read_samples(tmp_path / 'plans.npz')
    assert [(it.prompt, it.kind, it.length) for it in again] == [
        (it.prompt, it.kind, it.length) for it in samples
    ]
    common = ['--samples', str(tmp_path / 'plans.npz'), '-o', str(tmp_path), '--epochs', '2']
    assert main(['train-probe', *common]) == 0
    assert main(['train-rlp', *common, '--bucket', '8']) == 0
    assert 'layer' in capsys.readouterr().out
    assert set(json.loads((tmp_path / 'probe.json').read_text())['about']['layers']) == set('01234')
    before = read_probe(tmp_path)
    assert main(['train-probe', '--calibrate', *common]) == 0
    assert 'sharpness' in capsys.readouterr().out
    after = read_probe(tmp_path)
    assert after.about['calibrated']['plans'] == len(samples)
    assert after.settings.layer == before.settings.layer
    assert all((after.weights[name] == it).all() for name, it in before.weights.items())
    lengths = read_rlp(tmp_path).predict(requests[0].prompt.fixed, requests[0].prompt.body)
    assert 1 <= lengths.mean <= 128

    async def serve() -> dict[str, GenerationEnded]:
        engine = create_engine(
            TorchConfig(policy='srpt', mode='stream', max_running=2, predictors=str(tmp_path))
        )
        ended: dict[str, GenerationEnded] = {}
        done = asyncio.Event()

        def on_event(event: EngineEvent) -> None:
            if isinstance(event, GenerationEnded):
                ended[event.generation_id] = event
                if len(ended) == 4:
                    done.set()

        info = await engine.start(on_event)
        assert info.ranks_plans
        for request in [it for it in requests if not it.generation_id.endswith(':2')][:4]:
            engine.submit(replace(request, arrival_s=asyncio.get_running_loop().time()))
        await asyncio.wait_for(done.wait(), 120)
        await engine.close()
        return ended

    by_place = dict(zip((it.generation_id for it in requests), samples, strict=True))
    for name, event in asyncio.run(serve()).items():
        assert event.reason == 'stop'
        assert event.tokens + 1 == by_place[name].length


def test_prompts_are_read_on_a_thread() -> None:
    forecast = LengthDistribution((0.25, 0.75), 4)

    class Slow:
        def predict(self, fixed: str, body: str) -> LengthDistribution:
            assert fixed
            assert body
            return forecast

    reader = PromptReader(Slow())  # type: ignore[arg-type]
    reader.read(free_request(1))
    found: list[tuple[str, LengthDistribution]] = []
    while not found:
        found = reader.take()
    assert found == [('g1', forecast)]
    assert reader.take() == []


def test_predictions_begin_with_what_the_prompt_said(chaotic_model: Path) -> None:
    first = {}
    for bucket in (0, 15):
        loaded = load_model(str(chaotic_model), max_kv_tokens=4096)
        reader = StateReader(loaded, any_probe(1, 64), every=1)
        run = Run(loaded, free=True, options={'max_running': 1, 'prefill_chunk': 4096})
        run.core.apply(Submit(free_request(0, max_tokens=6)))
        said = [0.0] * 16
        said[bucket] = 1.0
        forecast = LengthDistribution(tuple(said), 5)
        reader.expect('g0', forecast)
        left: dict[str, float] = {}
        while not left:
            plan = run.core.plan(run.now_s)
            assert plan is not None
            run.core.complete(plan, run.backend.execute(plan), run.now_s, run.now_s + 0.005)
            left = reader.after_step(plan, run.backend)
        first[bucket] = left['g0']
        if bucket:
            assert left['g0'] == pytest.approx(forecast.mean, abs=10)
    assert first[0] < first[15]


def test_a_prompt_that_is_read_late_counts_the_same(chaotic_model: Path) -> None:
    forecast = LengthDistribution((0.0, 0.2, 0.0, 0.8), 8)
    found = {}
    for late in (False, True):
        loaded = load_model(str(chaotic_model), max_kv_tokens=4096)
        reader = StateReader(loaded, any_probe(1, 64), every=1)
        run = Run(loaded, free=True, options={'max_running': 1, 'prefill_chunk': 4096})
        run.core.apply(Submit(free_request(0, max_tokens=16)))
        if not late:
            reader.expect('g0', forecast)
        answers: list[float] = []
        while len(answers) < 3 and (plan := run.core.plan(run.now_s)) is not None:
            run.core.complete(plan, run.backend.execute(plan), run.now_s, run.now_s + 0.005)
            new = reader.after_step(plan, run.backend)
            answers.extend(new.values())
            if late and new and len(answers) == 2:
                reader.expect('g0', forecast)
        found[late] = answers
    assert found[True][:2] != found[False][:2]
    assert found[True][2] == pytest.approx(found[False][2])


def test_a_first_token_is_answered_for_at_once(chaotic_model: Path) -> None:
    loaded = load_model(str(chaotic_model), max_kv_tokens=4096)
    reader = StateReader(loaded, any_probe(1, 64), every=1000)
    run = Run(loaded, free=True, options={'max_running': 2, 'prefill_chunk': 4096})
    answered: list[tuple[str, int]] = []
    for number in range(4):
        run.core.apply(Submit(free_request(number, max_tokens=8)))
    while (plan := run.core.plan(run.now_s)) is not None:
        run.core.complete(plan, run.backend.execute(plan), run.now_s, run.now_s + 0.005)
        tokens = {row.generation.generation_id: row.generation.tokens for row in plan.rows}
        answered += [(name, tokens[name]) for name in reader.after_step(plan, run.backend)]
    assert sorted(answered) == [(f'g{number}', 1) for number in range(4)]


def test_what_followed_by_itself_is_off_a_prediction(chaotic_model: Path) -> None:
    followed = 0
    for number in range(6):
        first: list[tuple[int, float]] = []
        for forward in (False, True):
            loaded = load_model(str(chaotic_model), max_kv_tokens=4096)
            reader = StateReader(loaded, any_probe(1, 64), every=1)
            run = Run(loaded, options={'fast_forward': forward})
            run.core.apply(Submit(plan_request(number)))
            left: dict[str, float] = {}
            tokens = 0
            while not left:
                plan = run.core.plan(run.now_s)
                assert plan is not None
                run.core.complete(plan, run.backend.execute(plan), run.now_s, run.now_s + 0.005)
                left = reader.after_step(plan, run.backend)
                tokens = plan.rows[0].generation.tokens if plan.rows else 0
            first.append((tokens, left[f'g{number}']))
        (tokens, one_by_one), (after, forwarded) = first
        assert tokens == 1
        assert forwarded == pytest.approx(one_by_one - (after - 1))
        followed += after > 1
    assert followed


def test_calibration_hears_a_probe_where_it_knows_more_than_the_prompt() -> None:
    bins = LengthBins(10, 80)
    lengths = np.random.default_rng(5).integers(9, 61, size=40)
    left = [np.arange(length - 1, -1, -1) for length in lengths]
    often = np.bincount(bins.index(np.concatenate(left)), minlength=10) + 1.0
    # The state says what is left, and so which middle of a bin is nearest.
    weights = {
        'inner': np.array([[1.0, 0.0]]),
        'inner_bias': np.zeros(1),
        'outer': bins.midpoints[:, None] / 16,
        'outer_bias': -(bins.midpoints**2) / 32,
        'frequencies': often / often.sum(),
    }
    as_singles = {name: it.astype(np.float32) for name, it in weights.items()}
    probe = RemainingLengthProbe(ProbeSettings(1, bins), as_singles, {})
    deaf = RemainingLengthProbe(ProbeSettings(1, bins, 0.0), as_singles, {})
    seen = [np.stack([it, it], axis=1).astype(np.float16) for it in left]
    # A state that says nothing: all plans look as if they had 36 tokens left.
    blind = [np.full_like(it, 36) for it in seen]
    vague = [LengthDistribution((0.0, 0.0, *[1 / 13] * 13), 4)] * len(lengths)
    exact = [LengthDistribution(tuple(np.eye(64)[length - 1]), 1) for length in lengths]
    found = calibrated(probe, seen, vague)
    errors, prompt = (probe_errors(one, seen, vague) for one in (found, deaf))
    assert errors.refined < 0.5 * prompt.refined
    for forecasts in (exact, vague, None):
        found = calibrated(probe, blind, forecasts)
        errors, prompt = (probe_errors(one, blind, forecasts) for one in (found, deaf))
        assert errors.refined <= prompt.refined
    assert probe_errors(calibrated(probe, blind, exact), blind, exact).refined < 0.5


async def test_a_folder_without_predictors_is_refused(tmp_path: Path) -> None:
    engine = create_engine(TorchConfig(predictors=str(tmp_path)))
    with pytest.raises(ModelLoadError, match='train-rlp'):
        await engine.start(lambda _: None)


def test_the_shipped_predictors_fit_the_shipped_model() -> None:
    probe = read_probe(f'{MODEL}/predictors')
    assert probe.weights['inner'].shape[1] == 256
    rlp = read_rlp(f'{MODEL}/predictors')
    requests = list(draw_requests(60, 9, 'held_out', kinds=(6, 10)))
    means: dict[int, list[float]] = {6: [], 10: []}
    for request in requests:
        kind = int(request.generation_id.partition(':')[2])
        means[kind].append(rlp.predict(request.prompt.fixed, request.prompt.body).mean)
    # To get out of the way takes 11 tokens, to clean takes 18 to 68.
    assert np.mean(means[6]) < 15 < 30 < np.mean(means[10])


@pytest.mark.parametrize('content', [b'', b'hello', b'5', b'PK\x03\x04broken', b'\x93NUMPY'])
def test_samples_that_are_none_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / 'samples.npz'
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match='expected a file that --keep-samples wrote'):
        read_samples(path)
    np.save(tmp_path / 'one.npy', np.zeros(3))
    with pytest.raises(ConfigurationError, match='expected a file that --keep-samples wrote'):
        read_samples(tmp_path / 'one.npy')
