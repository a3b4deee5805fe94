"""A closed loop in its steady state: prompts beside decodes, waves of equal lengths, prefill workers that bind."""

import pytest
from generation_scenarios import generation

import sightline as sl
from sightline.errors import InputError
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
    assert tpot("tensorrt-llm", 8, work={"prompt_tokens": 256}) > 1.005 * alone
    assert tpot("tensorrt-llm", 16, work={"prompt_tokens": 256, "equal_lengths": True}) > alone


def both(framework, clients, prompt, output, *, equal=False, model="llama-3.1-8b", **plan):
    """The steady loop as it is predicted, and as a closed loop of as many clients is simulated."""
    cluster = f"{plan.get('tensor_parallel', 1)}x h100-sxm-80gb"
    shared = {"model": model, "cluster": cluster, "plan": {"framework": framework, **plan}}
    work = {"prompt_tokens": prompt, "output_tokens": output}
    steady = {**work, "batch": clients, "continuous": True, "equal_lengths": equal}
    answers = output if equal else {"distribution": "lognormal", "mean": output, "cv": 0.3}
    requests = {"count": 40 * clients, "prompt_tokens": prompt, "output_tokens": answers}
    served = {"requests": requests, "arrival": {"process": "closed", "concurrency": clients}}
    predicted = sl.predict(sl.load({**shared, "workload": {"task": "generate", **steady}}))
    simulated = sl.simulate(sl.load({**shared, "workload": {"task": "serve", **served}}), intervals=False)
    return predicted, simulated


@pytest.mark.parametrize("framework", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("load", [(1, 128, 4), (8, 1024, 128), (64, 1024, 128), (8, 8000, 256)])
def test_a_steady_loop_is_what_a_simulated_closed_loop_comes_to(framework, load):
    predicted, simulated = both(framework, *load)
    low, high = predicted.interval["tpot_s"]
    assert low < simulated.tpot_s["mean"] < high
    low, high = predicted.interval["output_tokens_per_s"]
    assert low < simulated.output_tokens_per_s < high
    assert predicted.ttft_s == pytest.approx(simulated.ttft_s["mean"], rel=0.3)


@pytest.mark.parametrize("framework", ["tgi", "tensorrt-llm"])
def test_engines_that_reserve_caches_run_as_many_sequences_as_in_the_simulator(framework):
    predicted, simulated = both(framework, 100, 1000, 1000, model="llama-3.1-70b", tensor_parallel=2)
    assert predicted.output_tokens_per_s == pytest.approx(simulated.output_tokens_per_s, rel=0.15)


@pytest.mark.parametrize("framework", ["vllm", "sglang"])
@pytest.mark.parametrize("load", [(64, 1024, 512), (256, 1024, 512), (64, 8192, 256), (32, 16000, 256)])
def test_ranks_that_share_experts_wait_for_each_others_prompts_as_in_the_simulator(framework, load):
    clients, prompt, output = load
    plan = {"framework": framework, "data_parallel": 8, "expert_parallel": 8}
    steady = {"batch": clients, "prompt_tokens": prompt, "output_tokens": output, "continuous": True}
    lengths = [{"distribution": "lognormal", "mean": mean, "cv": 0.15} for mean in (prompt, output)]
    requests = {"count": 40 * clients, **dict(zip(("prompt_tokens", "output_tokens"), lengths, strict=True))}
    served = {"requests": requests, "arrival": {"process": "closed", "concurrency": clients}}
    shared = {"model": "deepseek-v3", "cluster": "8x h200-sxm-141gb"}
    predicted = sl.predict(sl.load({**shared, "workload": {"task": "generate", **steady}, "plan": plan}))
    fair = {**plan, "router": "least-load"}
    simulated = sl.simulate(sl.load({**shared, "workload": {"task": "serve", **served}, "plan": fair}), intervals=False)
    assert predicted.tpot_s == pytest.approx(simulated.tpot_s["mean"], rel=0.07)
    alike = sl.predict(
        sl.load({**shared, "workload": {"task": "generate", **steady, "equal_lengths": True}, "plan": plan})
    )
    assert alike.output_tokens_per_s > 1.1 * predicted.output_tokens_per_s


def test_prompts_that_wait_for_those_of_other_ranks_hold_up_fewer_steps():
    work = {"batch": 64, "prompt_tokens": 1024, "output_tokens": 512, "continuous": True}

    def asked(**plan):
        ranks = {"framework": "tensorrt-llm", "data_parallel": 8, "expert_parallel": 8, **plan}
        return generation(model="deepseek-v3", cluster="8x h200-sxm-141gb", plan=ranks, **work)

    apart, together = (float(sl.predict(asked(balanced_prompts=on)).tpot_s) for on in (False, True))
    assert together < 0.9 * apart


@pytest.mark.parametrize("load", [(64, 1024, 128), (8, 8192, 256), (8, 32000, 100)])
def test_waves_of_equal_lengths_are_those_of_the_simulator_where_prompts_go_first(load):
    predicted, simulated = both("sglang", *load, equal=True)
    assert predicted.ttft_s == pytest.approx(simulated.ttft_s["mean"], rel=0.25)
    assert predicted.tpot_s == pytest.approx(simulated.tpot_s["mean"], rel=0.1)


@pytest.mark.parametrize("framework", ["vllm", "tensorrt-llm", "tgi"])
@pytest.mark.parametrize("load", [(8, 1024, 128), (64, 1024, 512), (16, 4000, 256), (128, 256, 256)])
def test_intervals_of_equal_lengths_reach_to_the_first_tokens_of_sequences_in_step(framework, load):
    predicted, simulated = both(framework, *load, equal=True)
    assert predicted.ttft_s < simulated.ttft_s["mean"] < predicted.interval["ttft_s"][1]


@pytest.mark.parametrize("framework", ["vllm", "sglang", "tensorrt-llm"])
def test_who_is_alone_waits_for_nobody(framework):
    alone = {"prompt_tokens": 128, "output_tokens": 4}
    static = loop(framework, 1, work=alone | {"continuous": False})
    assert loop(framework, 1, work=alone).latency_s == pytest.approx(static.latency_s)


def test_a_prompt_that_fills_the_budget_runs_beside_nobody():
    predicted, simulated = both("tensorrt-llm", 8, 8192, 256, equal=True)
    assert predicted.output_tokens_per_s == pytest.approx(simulated.output_tokens_per_s, rel=0.05)
    # A few tokens less leave room for as many others.
    predicted, simulated = both("tensorrt-llm", 64, 8150, 256)
    assert predicted.output_tokens_per_s == pytest.approx(simulated.output_tokens_per_s, rel=0.05)
    assert predicted.ttft_s == pytest.approx(simulated.ttft_s["mean"], rel=0.1)
    with pytest.raises(InputError, match="max_batched_tokens"):
        loop("tensorrt-llm", 8, work={"prompt_tokens": 8193})
