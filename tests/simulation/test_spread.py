"""Replicas whose stages or ranks depend on each other: pipelines, and ranks in lockstep."""

from dataclasses import replace

import numpy as np
import pytest

import sightline as sl
from sightline.prediction.generation.batch_profile import engine_constants
from sightline.prediction.generation.replica import worker_of
from sightline.simulation.deployment import alike, deployment_of, facts_of
from sightline.simulation.load import Requests
from sightline.simulation.outcome import COMPLETED
from sightline.simulation.serve import Pool, serve
from sightline.simulation.times import iteration_times, packed, prompt_attention_seconds, step_seconds

BLOCKS = 4000
STAGES = 4


def _scenario(devices=1, model="llama-2-7b", **plan):
    return sl.load(
        {
            "model": model,
            "cluster": f"{devices}x a100-sxm-80gb",
            "workload": {"task": "serve", "requests": {"count": 1, "prompt_tokens": 9, "output_tokens": 9}},
            "plan": {"framework": "vllm", **plan},
        }
    )


def _times(scenario):
    facts, alone = facts_of(scenario, BLOCKS), alike(scenario, 1, 1)
    constants = engine_constants(alone)[0].running_on(scenario.cluster)
    limits = {"tokens": facts.token_budget, "sequences": facts.max_sequences, "context": facts.context_tokens}
    return iteration_times(worker_of(alone), constants, **limits)


def _deployment(scenario):
    return deployment_of(scenario, [Pool(facts_of(scenario, BLOCKS), _times(scenario))])


def _with_facts(deployment, **changes):
    (pool,) = deployment.pools
    return replace(deployment, pools=(pool._replace(facts=pool.facts._replace(**changes)),))


def _load(count, prompt, output, rate=np.inf):
    arrival_s = np.arange(count) / rate
    return Requests(arrival_s=arrival_s, prompt_tokens=np.full(count, prompt), output_tokens=np.full(count, output))


@pytest.fixture(scope="module")
def pipeline():
    scenario = _scenario(STAGES, pipeline_parallel=STAGES)
    return _deployment(scenario)


def test_one_request_passes_all_stages_for_every_token(pipeline):
    times = packed(pipeline.pools[0].times)
    out = serve([_load(1, 100, 3)], pipeline)
    first_s = step_seconds(times, 0, 0, 100, 1, prompt_attention_seconds(times, 100, 0))
    further_s = sum(step_seconds(times, 1, context, 0, 0, 0.0) for context in (100, 101))
    # Before the engine sees it the host takes it in.
    begin_s = pipeline.pools[0].times.request_s
    assert out.first_token_s[0] == pytest.approx(begin_s + first_s)
    assert out.last_token_s[0] == pytest.approx(begin_s + first_s + further_s)


def test_each_stage_has_a_micro_batch_of_its_own(pipeline):
    # All requests are there at once.
    pipeline = _with_facts(pipeline, request_s=0.0, request_token_s=0.0, chunk_s=0.0)
    out = serve([_load(STAGES * 8, 64, 100)], pipeline)
    iterations = out.iterations
    full = (iterations.decodes == STAGES * 8) & (iterations.prompt_tokens == 0)
    alone = serve([_load(8, 64, 100)], _with_facts(pipeline, stages=1)).iterations
    eight = (alone.decodes == 8) & (alone.prompt_tokens == 0)
    # So many more sequences decode in the time that a micro-batch takes through all stages.
    assert full.sum() == eight.sum() == 99
    assert iterations.end_s[full] - iterations.start_s[full] == pytest.approx(alone.end_s[eight] - alone.start_s[eight])


def _passed(micro_batch_s):
    """When the last of some micro-batches leaves a pipeline of `STAGES`, each again in flight once it has left.

    Stages take the same time, so that a micro-batch waits for the one before it in the first stage or in the last.
    """
    begun, left = [], []
    for i, seconds in enumerate(micro_batch_s):
        stage_s = seconds / STAGES
        ready = left[i - STAGES] if i >= STAGES else 0.0
        begun.append(max(ready, begun[-1] + micro_batch_s[i - 1] / STAGES if begun else 0.0))
        left.append(max(begun[-1] + seconds, left[-1] + stage_s if left else 0.0))
    return left[-1]


@pytest.mark.parametrize("heavy", [0, 1, STAGES])
def test_a_round_takes_what_its_heaviest_micro_batch_takes(heavy):
    rounds, light_s, heavy_s = 200, 0.02, 0.05
    one_round = [heavy_s] * heavy + [light_s] * (STAGES - heavy)
    expected = rounds * (heavy_s if heavy else light_s)
    assert _passed(one_round * rounds) == pytest.approx(expected, rel=0.01)


def test_ranks_in_lockstep_wait_for_the_busiest():
    scenario = _scenario(2, tensor_parallel=1, replicas=2)
    deployment = _deployment(scenario)
    assert deployment.pools[0].facts.replicas == 2
    load = Requests(
        arrival_s=np.repeat(np.arange(40) * 0.05, 2),
        prompt_tokens=np.tile([2000, 20], 40),
        output_tokens=np.tile([50, 40], 40),
    )
    free, held = (serve([load], _with_facts(deployment, lockstep=n)) for n in (1, 2))
    assert (held.status == COMPLETED).all()
    assert held.gap_counts.sum() == (load.output_tokens - 1).sum()
    # Prompts that are a hundred times as long are all on rank 0, which hardly waits; rank 1 waits for it.
    assert held.last_token_s[::2].max() == pytest.approx(free.last_token_s[::2].max(), rel=0.02)
    assert held.last_token_s[1::2].mean() > 1.3 * free.last_token_s[1::2].mean()
    iterations = held.iterations
    both = np.intersect1d(iterations.start_s[iterations.replica == 0], iterations.start_s[iterations.replica == 1])
    assert both.size > 20
    for start_s in both:
        assert np.unique(iterations.end_s[iterations.start_s == start_s]).size == 1


def test_experts_over_data_parallel_ranks_hold_them_in_lockstep():
    spread = _scenario(4, "mixtral-8x7b", data_parallel=4, expert_parallel=4)
    apart = _scenario(4, "mixtral-8x7b", replicas=2, tensor_parallel=2, expert_parallel=2)
    assert (facts_of(spread, BLOCKS).lockstep, facts_of(apart, BLOCKS).lockstep) == (4, 1)


def test_groups_in_attention_are_data_parallel_ranks_that_share_the_experts():
    grouped = _scenario(4, "mixtral-8x7b", tensor_parallel=4, attention_data_parallel=2, expert_parallel=4)
    ranks = _scenario(4, "mixtral-8x7b", tensor_parallel=2, data_parallel=2, expert_parallel=4)
    assert facts_of(grouped, BLOCKS) == facts_of(ranks, BLOCKS)
    assert facts_of(grouped, BLOCKS).lockstep == 2
    one, other = (sl.simulate(scenario, intervals=False) for scenario in (grouped, ranks))
    assert one.latency_s == other.latency_s
    assert any("attention_data_parallel 2" in said for said in one.warnings)
