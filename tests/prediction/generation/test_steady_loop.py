"""A closed loop in its steady state: prompts beside decodes, waves of equal lengths, prefill workers that bind."""

import pytest
from generation_scenarios import generation

from sightline.loading import generation_from_mapping
from sightline.prediction.generation.batch_profile import predict_generation
from sightline.prediction.generation.engine_constants import load_inference
from sightline.prediction.generation.policies import latencies, price_workers

CONSTANTS, _ = load_inference("unmeasured")


def tpot(framework="vllm", batch=64, work=None, **plan):
    return float(loop(framework, batch, work, **plan).tpot_s)


def loop(framework="vllm", batch=64, work=None, **plan):
    scenario = generation_from_mapping(
        {
            "model": "llama-3.1-8b",
            "cluster": plan.pop("cluster", "1x h100-sxm-80gb"),
            "workload": {
                "task": "generate",
                "batch": batch,
                "prompt_tokens": 2048,
                "output_tokens": 256,
                "continuous": True,
            }
            | (work or {}),
            "plan": {"framework": framework, **plan},
        }
    )
    return latencies(price_workers(scenario), CONSTANTS)


def test_prompts_that_share_steps_cost_less_than_prompts_that_go_first():
    alone = tpot(work={"continuous": False})
    assert alone < tpot("vllm") < tpot("sglang")


def test_equal_lengths_come_in_waves_where_prompts_go_first():
    alone = tpot("sglang", work={"continuous": False})
    held_up = tpot("sglang") - alone
    waves = loop("sglang", work={"equal_lengths": True})
    assert waves.tpot_s - alone == pytest.approx(held_up / 2, rel=0.01)
    # The other half they wait for their first token, so that a round takes no less.
    assert waves.latency_s == pytest.approx(loop("sglang").latency_s, rel=0.02)
    lone = {"equal_lengths": True, "prompt_tokens": 8192}
    assert tpot("vllm", work=lone) == pytest.approx(tpot("vllm", work={"prompt_tokens": 8192}), rel=0.05)


@pytest.mark.parametrize("equal", [False, True])
def test_sequences_that_wait_for_their_prefill_do_not_decode(equal):
    work = {"prompt_tokens": 9000, "output_tokens": 30, "equal_lengths": equal}
    some, twice = loop(batch=48, work=work), loop(batch=96, work=work)
    # Prompts fill every step: twice the sequences wait twice as long and decode no slower.
    assert twice.tpot_s == pytest.approx(some.tpot_s, rel=0.02)
    assert twice.latency_s == pytest.approx(2 * some.latency_s, rel=0.1)
    budget = loop(batch=1, work={"prompt_tokens": 8192, "output_tokens": 30})
    assert some.tpot_s == pytest.approx(float(budget.prefill.pass_s), rel=0.1)


def disaggregated(prefill_workers, batch):
    pools = {"prefill": {"tensor_parallel": 1, "replicas": prefill_workers}, "decode": {"tensor_parallel": 1}}
    cluster = f"{prefill_workers + 1}x h100-sxm-80gb"
    return tpot("sglang", batch, cluster=cluster, disaggregate=pools)


def test_few_prefill_workers_leave_decode_workers_short_of_sequences():
    scarce, ample = disaggregated(1, 256), disaggregated(7, 256)
    assert scarce < 0.8 * ample
    # Once they bind, more requests only wait longer for their first token.
    assert disaggregated(1, 512) == pytest.approx(scarce, rel=0.1)
    assert disaggregated(7, 4) < disaggregated(7, 64)


def test_slow_processors_wait_for_prompts_without_gaining_time():
    pools = {"prefill": {"batch": 2}, "decode": {}}
    scenario = generation(
        model="codellama-7b",
        cluster="2x apple-m2-10core-16gb",
        batch=256,
        prompt_tokens=1,
        output_tokens=50,
        continuous=True,
        plan={"disaggregate": pools},
    )
    profile = predict_generation(scenario)
    weights = profile.memory_bytes["weights"] - 2 * scenario.model.embedding_parameters
    assert profile.tpot_s > weights / scenario.cluster.device.memory_bandwidth


def test_a_group_of_equal_prompts_does_not_wait_for_itself():
    """TensorRT-LLM takes eight prompts of 256 tokens at once; a loop of no more is one group."""
    alone = tpot("tensorrt-llm", 8, work={"continuous": False, "prompt_tokens": 256})
    assert tpot("tensorrt-llm", 8, work={"prompt_tokens": 256, "equal_lengths": True}) == pytest.approx(alone)
    assert tpot("tensorrt-llm", 8, work={"prompt_tokens": 256}) > 1.01 * alone
    assert tpot("tensorrt-llm", 16, work={"prompt_tokens": 256, "equal_lengths": True}) > alone
