"""One iteration of an engine: what prefill and decoding are made of, for plain numbers, arrays and mixed batches."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from generation_scenarios import generation

from sightline import predict
from sightline.prediction.generation.engine_constants import InferenceConstants, load_inference
from sightline.prediction.generation.phases import decode_phase, prefill_phase, price_generation
from sightline.prediction.generation.replica import Iteration, Worker, iteration_time, worker_of
from sightline.program import Batch, GroupedMatmul, decoding, prompts
from sightline.scenario import GenerationScenario

MODELS = ("llama-2-7b", "qwen3-30b-a3b", "deepseek-v3")


def asked(model: str = "llama-2-7b", **plan: object) -> GenerationScenario:
    ranks = {"llama-2-7b": 1, "qwen3-30b-a3b": 2, "deepseek-v3": 8}[model]
    fields = {"framework": "vllm", "tensor_parallel": ranks, **plan}
    devices = ranks * int(str(fields.get("pipeline_parallel", 1)))
    return generation(model=model, cluster=f"{devices}x h200-sxm-141gb", plan=fields)


def constants_of(scenario: GenerationScenario) -> InferenceConstants:
    return load_inference(scenario.plan.engine.name, scenario.plan.engine.version)[0]


def seconds(worker: Worker, batch: Batch) -> float:
    return float(iteration_time(worker, batch, constants_of(worker.scenario)).pass_s)


@pytest.mark.parametrize("model", MODELS)
def test_pure_batches_take_what_the_phases_take(model: str) -> None:
    scenario = asked(model)
    priced, constants = price_generation(scenario), constants_of(scenario)
    for phase, batch in (
        (prefill_phase(priced, constants), priced.prefill.kernels.batch),
        (decode_phase(priced, constants), priced.decode.kernels.batch),
    ):
        one = iteration_time(worker_of(scenario), batch, constants)
        assert one.pass_s == pytest.approx(phase.pass_s, rel=1e-12)


@pytest.mark.parametrize("differs", [{}, {"host": {"speed": 0.5}}, {"power_cap": "350 W"}])
def test_a_decoding_iteration_takes_what_a_prediction_says_of_a_token(differs: dict[str, object]) -> None:
    cluster = {"devices": "1x h200-sxm-141gb", **differs}
    scenario = generation(model="llama-2-7b", cluster=cluster, plan={"framework": "vllm"})
    constants = constants_of(scenario).running_on(scenario.cluster)
    batch = price_generation(scenario).decode.kernels.batch
    one = iteration_time(worker_of(scenario), batch, constants)
    assert one.pass_s == pytest.approx(predict(scenario).tpot_s, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("graphs", [True, False])
def test_a_mixed_batch_takes_less_than_both_apart_and_more_than_either(model: str, graphs: bool) -> None:
    worker = worker_of(asked(model, cuda_graphs=graphs))
    chunk, step = prompts(1.0, 512.0, 1024.0), decoding(64.0, 1500.0)
    together = seconds(worker, Batch.of(chunk, step))
    apart = [seconds(worker, Batch.of(group)) for group in (chunk, step)]
    assert max(apart) <= together <= sum(apart)


def test_experts_take_as_long_in_any_pass_of_as_many_tokens() -> None:
    worker = worker_of(asked("qwen3-30b-a3b"))
    step, mixed = Batch.of(decoding(64.0, 900.0)), Batch.of(decoding(48.0, 900.0), prompts(1.0, 16.0, 900.0))
    assert experts_s(worker, mixed) == experts_s(worker, step)
    few, many = (Batch.of(prompts(1.0, tokens)) for tokens in (64.0, 2048.0))
    both = Batch.of(prompts(1.0, np.array([64.0, 2048.0])))
    for one, other, each in zip(*(experts_s(worker, batch) for batch in (few, many, both)), strict=True):
        assert each == pytest.approx([one, other])


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "deepseek-v3"])
def test_experts_take_longer_with_their_rows_and_leap_nowhere(model: str) -> None:
    tokens = np.arange(256.0, 1025.0)
    worker = worker_of(asked(model))
    growth = np.diff(np.log(sum(experts_s(worker, Batch.of(prompts(1.0, tokens))))))
    assert growth.min() >= 0.0
    assert growth.max() < 0.01


def experts_s(worker: Worker, batch: Batch) -> list[Any]:
    (priced,) = worker.priced([batch])
    prices = priced.in_engine(constants_of(worker.scenario))
    return [prices[id(op)].time_s for op in priced.program.operators if isinstance(op, GroupedMatmul)]


def test_more_tokens_never_take_less() -> None:
    worker = worker_of(asked())
    for groups in (
        [Batch.of(prompts(n, 256.0)) for n in (1.0, 2.0, 8.0)],
        [Batch.of(decoding(32.0, c)) for c in (128.0, 1024.0, 8192.0)],
        [Batch.of(decoding(n, 1024.0), prompts(1.0, 512.0)) for n in (1.0, 64.0, 256.0)],
    ):
        times = [seconds(worker, batch) for batch in groups]
        assert times == sorted(times)


def test_arrays_are_each_of_their_numbers() -> None:
    worker = worker_of(asked())
    counts, contexts = np.array([[1.0], [16.0], [64.0]]), np.array([100.0, 3000.0])
    many = iteration_time(
        worker, Batch.of(decoding(counts, contexts), prompts(1.0, 256.0)), constants_of(worker.scenario)
    )
    assert np.shape(many.pass_s) == (3, 2)
    for i, count in enumerate(counts[:, 0]):
        for j, context in enumerate(contexts):
            one = seconds(worker, Batch.of(decoding(float(count), float(context)), prompts(1.0, 256.0)))
            assert many.pass_s[i, j] == pytest.approx(one, rel=1e-9)


def test_stages_hand_on_activations_and_only_decoding_returns_tokens() -> None:
    worker = worker_of(asked(pipeline_parallel=4))

    def sent(batch: Batch) -> Iteration:
        return iteration_time(worker, batch, replace(constants_of(worker.scenario), handover_s=0.0))

    prompt, step = sent(Batch.of(prompts(1.0, 1.0))), sent(Batch.of(decoding(1.0, 0.0)))
    assert step.transfer_s == pytest.approx(4 / 3 * prompt.transfer_s)
    assert sent(Batch.of(prompts(1.0, 1.0), decoding(1.0, 0.0))).transfer_s > step.transfer_s


def test_a_batch_that_was_met_before_is_not_priced_again() -> None:
    step, chunk = Batch.of(decoding(16.0, 700.0)), Batch.of(prompts(1.0, 300.0))
    (first,) = worker_of(asked()).priced([step])
    again, new = worker_of(replace(asked(), name="again")).priced([Batch.of(decoding(16.0, 700.0)), chunk])
    assert again is first
    assert new.kernels.batch is chunk
    (other,) = worker_of(asked(quantization=["fp8"])).priced([step])
    assert other is not first
    (array,) = worker_of(asked()).priced([Batch.of(decoding(np.array([16.0]), 700.0))])
    assert array is not first
