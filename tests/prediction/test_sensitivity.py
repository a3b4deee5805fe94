from dataclasses import replace

import pytest

import sightline as sl
from sightline.prediction.changes import plans_beside
from sightline.prediction.sensitivity import NUMBERS, elasticities, neighbours, sensitivity

MODEL = "llama-2-7b"


def _training(**plan):
    workload = {"task": "pretrain", "sequence_length": 2048, "global_batch": 16}
    settings = {"framework": "deepspeed", "zero_stage": 2, "micro_batch": 1} | plan
    return sl.load({"model": MODEL, "cluster": "8x a100-sxm-80gb", "workload": workload, "plan": settings})


def _generation(batch=1):
    workload = {"task": "generate", "batch": batch, "prompt_tokens": 512, "output_tokens": 64}
    return sl.load(
        {"model": MODEL, "cluster": "2x h100-sxm-80gb", "workload": workload, "plan": {"tensor_parallel": 2}}
    )


def _faster_memory(scenario, factor):
    device = scenario.cluster.device
    faster = replace(device, memory_bandwidth=device.memory_bandwidth * factor)
    return replace(scenario, cluster=replace(scenario.cluster, device=faster))


@pytest.mark.parametrize("scenario", [_training(), _generation()], ids=["training", "generation"])
def test_an_elasticity_is_what_two_predictions_of_their_own_say(scenario):
    key = "step_time_s" if scenario.workload.task == "pretrain" else "tpot_s"
    low, high = (getattr(sl.predict(_faster_memory(scenario, f)), key) for f in (0.99, 1.01))
    expected = (high / low - 1) / 0.02
    assert elasticities(scenario)["device.memory_bandwidth"][key] == pytest.approx(expected, rel=0.02, abs=1e-4)


def test_more_of_a_rate_never_takes_longer_and_more_latency_never_less():
    for by_key in (elasticities(_training()), elasticities(_generation(64))):
        assert set(by_key) == set(NUMBERS)
        for name, values in by_key.items():
            sign = 1 if name.endswith("latency_s") else -1
            assert all(sign * v >= -1e-6 for v in values.values()), name


def test_decode_hangs_on_memory_bandwidth_and_prefill_on_arithmetic():
    by_number = elasticities(_generation())
    assert by_number["device.memory_bandwidth"]["tpot_s"] < -0.5
    assert by_number["device.peak_flops"]["ttft_s"] < by_number["device.memory_bandwidth"]["ttft_s"]


def test_an_operator_has_elasticities_and_no_neighbours():
    operator = sl.load(
        {
            "cluster": "1x a100-sxm-80gb",
            "workload": {"task": "operator", "operator": "matmul", "m": 8192, "n": 8192, "k": 8192, "dtype": "bf16"},
        }
    )
    found = sensitivity(operator)
    assert found.elasticity["device.peak_flops"]["time_s"] == pytest.approx(-1, abs=0.1)
    assert found.neighbours == []


def test_neighbours_are_valid_offered_and_sorted():
    scenario = _training()
    beside = dict(plans_beside(scenario))
    assert {"zero_stage: 0", "zero_stage: 3", "recompute: full", "attention: eager", "micro_batch: 2"} <= set(beside)
    # DeepSpeed alone splits no matrices.
    assert not any("tensor_parallel" in change for change in beside)
    for change, plan in beside.items():
        assert plan.tensor_parallel * plan.pipeline_parallel * plan.replicas == 8, change
        assert scenario.workload.global_batch % (plan.data_parallel * plan.sequences) == 0, change
    times = [n.profile.step_time_s for n in neighbours(scenario)]
    assert times == sorted(times)


def test_halving_tensor_parallelism_doubles_the_replicas():
    beside = dict(
        plans_beside(_training(framework="megatron", zero_stage=0, tensor_parallel=2, sequence_parallel=True))
    )
    single = beside["tensor_parallel: 1, sequence_parallel: false"]
    assert (single.data_parallel, single.sequence_parallel) == (8, False)
    assert beside["tensor_parallel: 4"].data_parallel == 2


def test_an_open_micro_batch_is_settled_first():
    scenario = sl.load(
        {
            "model": MODEL,
            "cluster": "8x a100-sxm-80gb",
            "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 16},
            "plan": {"framework": "deepspeed", "zero_stage": 2},
        }
    )
    assert sensitivity(scenario).answer.scenario.plan.micro_batch is not None


def test_what_takes_no_time_depends_on_nothing():
    """As an exchange with nobody."""
    alone = {"task": "operator", "operator": "all_reduce", "bytes": 1e6}
    asked = sl.load({"cluster": "1x h100-sxm-80gb", "workload": alone})
    assert not any(sl.sensitivity(asked).elasticity.values())
