"""Tabulated iteration times say what `iteration_time` says, for every kind of model and plan."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from generation_scenarios import generation
from hypothesis import given
from hypothesis import strategies as st

from sightline.prediction.generation.batch_profile import engine_constants
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.replica import (
    Worker,
    attention_start_s,
    iteration_of,
    iteration_time,
    worker_of,
)
from sightline.program import Batch, decoding, prompts
from sightline.simulation.load import Floats, Integers
from sightline.simulation.times import (
    IterationTimes,
    PackedTimes,
    axis_points,
    decode_attention_seconds,
    in_loop,
    iteration_times,
    packed,
    place_on,
    prompt_attention_seconds,
    shared_seconds,
    step_seconds,
)

MOST_PROMPTS = 3


def table_errors(
    worker: Worker,
    constants: InferenceConstants,
    times: IterationTimes,
    *,
    tokens: int,
    sequences: int,
    context: int,
    batches: int = 400,
    seed: int = 0,
) -> Floats:
    """Return the relative error of the table's seconds for random batches up to the tables' ends, by group.

    Sizes are spread evenly over their logarithms; batches have decoding sequences, up to three prompts, or both.
    """
    random = np.random.default_rng(seed)

    def sizes(low: int, high: int, *shape: int) -> Integers:
        return np.exp(random.uniform(np.log(low), np.log(high + 1), shape)).astype(np.int64)

    n, seen = sizes(1, sequences, batches), sizes(1, context, batches)
    new, cached = sizes(1, tokens // MOST_PROMPTS, MOST_PROMPTS, batches), sizes(1, context, MOST_PROMPTS, batches) - 1
    tables, errors = packed(times), []
    for decodes, count, chosen in _kinds(batches):
        groups = [decoding(1.0 * n[chosen], 1.0 * seen[chosen], times.tokens_per_decode)] * decodes
        groups += [prompts(1.0, 1.0 * new[i, chosen], 1.0 * cached[i, chosen]) for i in range(count)]
        loop = in_loop(worker, constants)
        asked = iteration_time(worker, Batch.of(*groups), loop).pass_s
        found = [
            _tabulated(tables, int(n[i]) * decodes, int(seen[i]), new[:count, i], cached[:count, i])
            for i in range(chosen.start, chosen.stop)
        ]
        errors.append(np.array(found) / asked - 1.0)
    return np.concatenate(errors)


def _kinds(batches: int) -> Iterator[tuple[bool, int, slice]]:
    """Whether batches decode, how many prompts they have, and which of them: equal parts of each kind."""
    kinds = [(decodes, count) for decodes in (False, True) for count in range(MOST_PROMPTS + 1) if decodes or count]
    ends = np.linspace(0, batches, len(kinds) + 1).astype(int).tolist()
    for (decodes, count), begin, end in zip(kinds, ends[:-1], ends[1:], strict=True):
        yield decodes, count, slice(begin, end)


def _tabulated(times: PackedTimes, decodes: int, seen: int, new: Integers, cached: Integers) -> float:
    attention_s = sum(prompt_attention_seconds(times, int(q), int(c)) for q, c in zip(new, cached, strict=True))
    return step_seconds(times, decodes, decodes * seen, int(new.sum()), new.size, float(attention_s))


SIZES: Any = {"tokens": 8192, "sequences": 512, "context": 32768}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "dense": ("llama-2-7b", "1x a100-sxm-80gb", {}),
    "grouped queries": ("llama-3.1-8b", "1x h100-sxm-80gb", {}),
    "without graphs": ("llama-3.1-8b", "1x h100-sxm-80gb", {"cuda_graphs": False}),
    "tensor parallel": ("llama-3.1-70b", "4x h100-sxm-80gb", {"tensor_parallel": 4}),
    "slow collectives": ("llama-2-70b", "4x a100-sxm-80gb", {"tensor_parallel": 4, "framework_version": "0.2"}),
    "fp8": ("llama-3.1-70b", "2x h100-sxm-80gb", {"tensor_parallel": 2, "quantization": "fp8"}),
    "experts": ("qwen3-30b-a3b", "2x h200-sxm-141gb", {"tensor_parallel": 2}),
    "latent attention": (
        "deepseek-v3",
        "8x h200-sxm-141gb",
        {"framework": "sglang", "data_parallel": 8, "expert_parallel": 8},
    ),
    "pipeline": ("llama-2-13b", "2x a100-sxm-80gb", {"pipeline_parallel": 2}),
    "speculative": ("llama-3.1-8b", "1x h100-sxm-80gb", {"speculative": {"tokens": 3, "acceptance": 0.7}}),
    "prediction layer": (
        "deepseek-v3",
        "8x h200-sxm-141gb",
        {"framework": "sglang", "tensor_parallel": 8, "speculative": {"tokens": 2, "acceptance": 0.7}},
    ),
    "recurrent": ("qwen3-next-80b-a3b", "4x h200-sxm-141gb", {"tensor_parallel": 4}),
    "4-bit": ("llama-3.1-8b", "1x rtx-4090", {"framework": "llama.cpp", "quantization": "q4_k_m"}),
}


def replica(case: str, **changes: Any) -> tuple[Any, Any]:
    model, cluster, plan = CASES[case]
    scenario = generation(model=model, cluster=cluster, plan={"framework": "vllm", **plan, **changes})
    constants, _ = engine_constants(scenario)
    return worker_of(scenario), constants.running_on(scenario.cluster)


@pytest.mark.parametrize("case", CASES)
def test_tables_say_what_an_iteration_takes(case: str) -> None:
    worker, constants = replica(case)
    errors = np.abs(table_errors(worker, constants, iteration_times(worker, constants, **SIZES), **SIZES))
    assert np.median(errors) < 0.003
    assert np.quantile(errors, 0.99) < 0.02
    # A wave of attention more or less, between two points of the table.
    assert errors.max() < 0.04


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_tables_say_what_micro_batches_in_turns_take(turns: int) -> None:
    worker, constants = replica("latent attention", expert_parallel=1)
    apart = replace(worker.plan, expert_devices=16, expert_micro_batches=turns)
    worker = worker_of(replace(worker.scenario, plan=apart))
    tables = packed(iteration_times(worker, constants, **SIZES))
    for n in (1, 2, 5, 60, 500):
        m = min(turns, n)
        (priced,) = worker.priced([Batch.of(decoding(n / m, 3000.0), in_turns=m)])
        asked = iteration_of(worker, priced, in_loop(worker, constants), m).pass_s
        assert step_seconds(tables, n, 3000 * n, 0, 0, 0.0) == pytest.approx(asked, rel=0.003)


def test_scheduling_ahead_hides_the_host_behind_the_device() -> None:
    (after, constants), (worker, _) = replica("grouped queries", async_scheduling=False), replica("grouped queries")
    slow, apart = replace(constants, iteration_s=0.1), replace(constants, exposed_share=0.3)
    for c in (constants, slow, apart):
        usual, ahead = (iteration_times(of, c, **SIZES) for of in (after, worker))
        assert (usual.request_s, ahead.request_s) == (0.0, c.prefill_s)
        step, hidden = (step_seconds(packed(of), 8, 8000, 0, 0, 0.0) for of in (usual, ahead))
        batch = Batch.of(decoding(8, 1000))
        assert hidden == pytest.approx(iteration_time(worker, batch, c).pass_s, rel=0.003)
        assert step == pytest.approx(iteration_time(after, batch, c).pass_s, rel=0.003)
        code_s = c.iteration_s + 8 * c.sequence_s
        assert hidden == pytest.approx(max(step - (1.0 - c.exposed_share) * code_s, code_s))


def test_a_process_that_calls_its_workers_in_turn_takes_longer_with_more_of_them() -> None:
    worker, constants = replica("recurrent", async_scheduling=False)
    calling, batch = replace(constants, worker_s=1e-3), Batch.of(decoding(8, 1000))
    passes, steps = (
        [iteration_time(worker, batch, c).pass_s for c in (constants, calling)],
        [step_seconds(packed(iteration_times(worker, c, **SIZES)), 8, 8000, 0, 0, 0.0) for c in (constants, calling)],
    )
    assert passes[1] - passes[0] == pytest.approx(3e-3)
    assert steps[1] - steps[0] == pytest.approx(3e-3)


def test_without_graphs_python_launches_every_kernel() -> None:
    worker, constants = replica("without graphs")
    compiled, _ = replica("grouped queries")
    batch = Batch.of(decoding(1, 1000))
    slower = replace(constants, eager_launch_s=constants.eager_launch_s + 1e-5)
    eager, later, graphs = (
        iteration_time(of, batch, c) for of, c in ((worker, constants), (worker, slower), (compiled, constants))
    )
    # At least eight kernels in each of 32 layers, whose launches the device waits for.
    assert eager.times.launches > 8 * 32
    assert later.pass_s - eager.pass_s == pytest.approx(1e-5 * eager.times.launches, rel=0.1)
    assert eager.pass_s > 1.2 * graphs.pass_s
    # Beyond the sizes that graphs were captured for kernels are launched too, but as compiled code does it.
    slow = replace(constants, launch_s=1e-3)
    waits = [iteration_time(compiled, Batch.of(decoding(n, 10)), slow).pass_s for n in (512, 513)]
    assert waits[1] > 2 * waits[0]


def test_small_batches_are_in_the_tables_themselves() -> None:
    worker, constants = replica("grouped queries")
    times = packed(iteration_times(worker, constants, **SIZES))
    for n, context, new in ((1, 16, 0), (7, 32, 0), (3, 24, 100), (0, 0, 64)):
        groups = [decoding(n, context)] * (n > 0) + [prompts(1, new, 8)] * (new > 0)
        attention_s = prompt_attention_seconds(times, new, 8) if new else 0.0
        found = step_seconds(times, n, n * context, new, int(new > 0), attention_s)
        asked = iteration_time(worker, Batch.of(*groups), in_loop(worker, constants))
        assert found == pytest.approx(asked.pass_s, rel=1e-9)


def test_experts_see_the_tokens_of_all_ranks() -> None:
    worker, constants = replica("latent attention")
    times = packed(iteration_times(worker, constants, **SIZES))
    for new in (64, 2048):
        group = replace(prompts(1, new, 0), evenness=0.125)
        asked = iteration_time(worker, Batch.of(group), in_loop(worker, constants)).pass_s
        even_s = shared_seconds(times, new / 8) - shared_seconds(times, 1.0 * new)
        attention_s = prompt_attention_seconds(times, new, 0)
        assert step_seconds(times, 0, 0, new, 1, attention_s + even_s) == pytest.approx(asked, rel=5e-3)
        assert even_s < 0


def test_passes_of_few_tokens_wait_for_no_launches() -> None:
    worker, constants = replica("grouped queries")
    eager = replace(constants, launch_s=1e-3)
    for new, waits in ((512, False), (513, True)):
        batch = Batch.of(prompts(1.0, 1.0 * new))
        graphs, launched = (iteration_time(worker, batch, c).pass_s for c in (constants, eager))
        assert (launched > 1.5 * graphs) == waits


def test_all_prompts_of_a_pass_start_one_kernel() -> None:
    worker, constants = replica("grouped queries")
    start_s = attention_start_s(worker, constants)
    times = packed(iteration_times(worker, constants, **SIZES))
    attention_s = prompt_attention_seconds(times, 16, 512)
    assert start_s == pytest.approx(prompt_attention_seconds(times, 1, 0))
    alone = step_seconds(times, 0, 0, 16, 1, attention_s)
    assert step_seconds(times, 0, 0, 16, 1, attention_s + start_s) == pytest.approx(alone + start_s)
    assert step_seconds(times, 0, 0, 16, 2, attention_s + start_s) == pytest.approx(alone, rel=1e-2)
    apart = packed(iteration_times(worker, constants, **SIZES)._replace(joins_attention=False))
    assert step_seconds(apart, 8, 8000, 16, 1, attention_s) == pytest.approx(
        step_seconds(times, 8, 8000, 16, 1, attention_s) + start_s
    )


def test_nothing_attends_in_no_time() -> None:
    times = packed(iteration_times(*replica("dense"), **SIZES))
    assert prompt_attention_seconds(times, 0, 100) == 0.0
    assert decode_attention_seconds(times, 0, 0) == 0.0


@given(st.integers(0, 5_000_000), st.sampled_from((4, 6, 10)))
def test_every_integer_lies_between_its_points(x: int, bits: int) -> None:
    points = axis_points(6_000_000.0, bits)
    before, share = place_on(bits, points.size, float(x))
    assert 0.0 <= share < 1.0
    assert math.isclose(points[before] + share * (points[before + 1] - points[before]), x, abs_tol=1e-9)


@given(st.integers(1, 100_000), st.sampled_from((4, 6, 10)))
def test_an_axis_reaches_its_limit_and_little_more(limit: int, bits: int) -> None:
    points = axis_points(float(limit), bits)
    assert (np.diff(points) > 0).all()
    assert points[-2] <= limit < points[-1]
