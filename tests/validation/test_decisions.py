"""Which of measured plans is predicted to be the fastest, what one choice changes, and what fits."""

import pytest

from sightline.validation.cases import Answer, Case, Result, result_of
from sightline.validation.decisions import decisions_of
from sightline.validation.evaluation import OUT_OF_MEMORY

SEEN = "team/cluster"
PLAIN = {"tensor_parallel": 2, "pipeline_parallel": 2, "micro_batch": 1, "schedule": "1f1b"}


def answer(measured, predicted, fit="yes", **plan):
    work = {"task": "pretrain", "sequence_length": 8, "global_batch": 64}
    scenario = {
        "name": str(measured),
        "model": "m",
        "cluster": {"devices": "8x d"},
        "workload": work,
        "plan": PLAIN | plan,
        "measured": {"step_time_s": measured},
    }
    return Answer(case=Case(scenario=scenario, measured=measured, split="test"), predicted=predicted, fit=fit)


def decided(*answers, quantity="step_time_s") -> Result:
    return result_of(SEEN, quantity, "test", answers)


def pairs(*answers):
    return decisions_of([decided(*answers)])[0]["pairs"]


def test_the_pick_is_the_fastest_predicted_plan():
    times = [(10.0, 11.0), (9.0, 9.5), (8.0, 9.0), (12.0, 8.5), (11.0, 12.0)]
    answers = [answer(measured, said, micro_batch=3**n) for n, (measured, said) in enumerate(times)]
    source, every = decisions_of([decided(*answers)])
    assert source["source"] == SEEN
    assert source["sweeps"] == {"count": 1, "within_5_percent": 0, "worst_regret": pytest.approx(12 / 8 - 1)}
    assert source["large_sweeps"]["count"] == 1
    assert source["large_sweeps"]["spearman"] == pytest.approx(0.0, abs=1e-12)
    assert {**every, "source": SEEN} == source


@pytest.mark.parametrize(
    ("change", "less", "more"),
    [
        ("sequence_parallel", {"sequence_parallel": False}, {"sequence_parallel": True}),
        ("recompute", {"recompute": "none"}, {"recompute": "full"}),
        ("zero_stage", {"zero_stage": 1}, {"zero_stage": 3}),
        ("gradient_reduce_dtype", {"gradient_reduce_dtype": "fp32"}, {"gradient_reduce_dtype": "bf16"}),
        *((name, {name: False}, {name: True}) for name in ("compile", "fused_norm", "fused_rope", "fused_activation")),
        ("micro_batch", {"micro_batch": 2}, {"micro_batch": 4}),
        ("tensor_parallel", {}, {"tensor_parallel": 4, "pipeline_parallel": 1, "schedule": "gpipe"}),
    ],
)
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_pair_differs_in_one_choice(change, less, more, is_turned):
    both = [answer(10.0, 10.0, **less), answer(8.0, 11.0, **more)]
    found = pairs(*(both[::-1] if is_turned else both))
    assert found == {
        change: {
            "count": 1,
            "sign_right": 0,
            "error": pytest.approx(0.3),
            "measured": pytest.approx(-0.2),
            "predicted": pytest.approx(0.1),
        }
    }


@pytest.mark.parametrize(
    "more",
    [
        {"micro_batch": 4},
        {"micro_batch": 2, "zero_stage": 3},
        {"tensor_parallel": 4},
        {"offload": "optimizer"},
        {"recompute": "half"},
    ],
    ids=str,
)
def test_plans_that_differ_otherwise_are_no_pair(more):
    assert pairs(answer(10.0, 10.0, recompute="none", zero_stage=1), answer(8.0, 9.0, **more)) == {}


SERVED = {"tensor_parallel": 2, "quantization": "none"}


@pytest.mark.parametrize(
    ("change", "devices", "batch", "more"),
    [
        ("weights", 2, 8, {"quantization": ["fp8"]}),
        ("cuda_graphs", 2, 8, {"cuda_graphs": True}),
        ("expert_parallel", 2, 8, {"expert_parallel": 2}),
        ("devices", 4, 8, {"tensor_parallel": 4}),
        ("replicas", 1, 4, {"tensor_parallel": 1}),
    ],
)
def test_layouts_of_generation_differ_in_one_choice(change, devices, batch, more):
    def served(predicted, devices, batch, **plan):
        work = {"task": "generate", "batch": batch, "prompt_tokens": 8, "output_tokens": 8}
        plan = {"cuda_graphs": False} | SERVED | plan
        scenario = {"model": "m", "cluster": {"devices": f"{devices}x d"}, "workload": work, "plan": plan}
        return Answer(case=Case(scenario=scenario, measured=predicted, split="own"), predicted=predicted, fit="yes")

    both = [served(0.2, 2, 8), served(0.1, devices, batch, **more)]
    found = decisions_of([result_of(SEEN, "tpot_s", "own", both, "generation")])[0]["pairs"]
    assert {name: pairs["sign_right"] for name, pairs in found.items()} == {change: 1}


def test_times_that_hardly_differ_tell_no_sign():
    assert pairs(answer(10.0, 10.0), answer(9.8, 9.0, micro_batch=2)) == {}


def test_memory_is_told_of_plans_that_ran_and_that_ran_out():
    ran = decided(answer(1.0, 1.0, "no"), answer(2.0, 2.0, "tight", micro_batch=2), answer(1.0, 1.0, micro_batch=4))
    out = decided(answer(float("inf"), 1.0, "yes"), answer(float("inf"), 1.0, "no"), quantity=OUT_OF_MEMORY)
    source, every = decisions_of([out, ran])
    assert source["ran"] == every["ran"] == {"yes": 1, "tight": 1, "no": 1}
    assert source["ran_out"] == every["ran_out"] == {"yes": 1, "tight": 0, "no": 1}
