"""The search of training plans against scalar predictions of every plan, one by one."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.loading.spaces import load_spaces
from sightline.planning.search import plan as search_launchable
from sightline.planning.training import training_search as search_module
from sightline.planning.training.best import fields_at
from sightline.planning.training.candidates import resolved
from sightline.planning.training.training_search import Bounds
from sightline.planning.training.validity import POSSIBLE
from sightline.prediction.training.step_profile import profile_of
from sightline.scenario.plan import OFFLOADABLE
from sightline.scenario.rules import facts_of
from sightline.scenario.rules.rulebook import broken_rules

plan = partial(search_launchable, launchable=False)
"""Searches all that is possible, launched or not."""

DENSE = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4}
DENSE |= {"num_key_value_heads": 2, "intermediate_size": 640, "vocab_size": 1024}
EXPERTS = {**DENSE, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
MODELS = {
    "dense": DENSE,
    "experts": EXPERTS,
    "latent": "deepseek-v2-lite",
    "linear": {"same_as": "qwen3-next-80b-a3b", "num_hidden_layers": 4, "num_experts": 16},
}
WORK = {"task": "pretrain", "sequence_length": 64, "global_batch": 8}


def asked(model, plan, devices="4x a100-sxm-80gb", **work):
    return {"model": model, "cluster": devices, "workload": WORK | work, "plan": {"framework": "megatron"} | plan}


def subsets() -> Iterator[frozenset[str]]:
    for count in range(len(OFFLOADABLE) + 1):
        yield from map(frozenset, combinations(OFFLOADABLE, count))


def every_plan(mapping):
    """Every distinct valid plan of a scenario, each a scalar scenario, by plain loops."""
    fixed = mapping["plan"]
    base = scenario_from_mapping({**mapping, "plan": {"framework": fixed["framework"], "micro_batch": 1}})
    devices, layers, batch = base.cluster.devices, base.model.layers, base.workload.global_batch
    experts = base.model.experts
    degrees = [d for d in range(1, devices + 1) if devices % d == 0]
    free = {
        "tensor_parallel": degrees,
        "pipeline_parallel": degrees,
        "context_parallel": degrees,
        "expert_parallel": [1]
        if experts is None
        else [e for e in range(1, experts.count + 1) if experts.count % e == 0],
        "micro_batch": [b for b in range(1, batch + 1) if batch % b == 0],
        "sequence_parallel": [False, True],
        "virtual_stages": [v for v in range(1, layers + 1) if layers % v == 0],
        "schedule": ["1f1b", "gpipe", "zero-bubble", "interleaved", "dualpipe"],
        "zero_stage": [0, 1, 2, 3],
        "recompute": ["none", "selective", "full"],
        "offload": list(subsets()),
        "attention": ["flash", "eager"],
        "compile": base.plan.framework.offers["compile"],
    }
    values = {name: fixed[name]["any"] if name in fixed else usual for name, usual in free.items()}
    seen = set()
    for chosen in product(*values.values()):
        fields = dict(zip(values, chosen, strict=True))
        ranks = fields["tensor_parallel"] * fields["pipeline_parallel"] * fields["context_parallel"]
        if devices % ranks or (fields["schedule"] == "interleaved") != (fields["virtual_stages"] > 1):
            continue
        if layers % (fields["pipeline_parallel"] * fields["virtual_stages"]) and fields["virtual_stages"] > 1:
            continue
        replicas = devices // ranks
        if fields["tensor_parallel"] == 1:
            fields["sequence_parallel"] = False
        if fields["pipeline_parallel"] == 1 and fields["schedule"] in ("gpipe", "zero-bubble"):
            fields["schedule"] = "1f1b"
        if replicas * fields["context_parallel"] == 1 and not base.plan.framework.zero_engine.hooks:
            fields["zero_stage"] = 0
        key = tuple(fields.values())
        if key in seen:
            continue
        seen.add(key)
        scenario = replace(base, plan=replace(base.plan, data_parallel=replicas, **fields))
        if not any(broken_rules(POSSIBLE, facts_of(scenario))):
            yield scenario


SMALL = {
    "recompute": {"any": ["none", "full"]},
    "attention": {"any": ["flash"]},
    "offload": {"any": [frozenset(), frozenset({"optimizer"})]},
    "schedule": {"any": ["1f1b", "interleaved"]},
}


@pytest.mark.parametrize(
    "kind", ["dense", "experts", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("latent", "linear"))]
)
def test_search_finds_what_scalar_predictions_of_every_plan_find(kind):
    mapping = asked(MODELS[kind], {**SMALL, "offload": {"any": ["none"]}, "zero_stage": {"any": [0, 3]}})
    brute = asked(MODELS[kind], {**SMALL, "offload": {"any": [frozenset()]}, "zero_stage": {"any": [0, 3]}})
    profiles = [profile_of(scenario) for scenario in every_plan(brute)]
    times = sorted(float(p.step_time_s) for p in profiles if p.fits)
    answer = plan(mapping, top=5)
    assert answer.evaluated == len(profiles)
    assert answer.feasible == len(times)
    assert min(p.profile.step_time_s for p in answer.plans) == pytest.approx(times[0], rel=1e-9)


def test_array_search_over_several_sizes_of_a_cluster_is_the_search_of_each():
    sizes = ["8x a100-sxm-80gb", "16x a100-sxm-80gb", "32x a100-sxm-80gb"]
    plans = {"recompute": {"any": ["none", "full"]}, "attention": "flash", "offload": "none"}
    together = plan(asked("llama-2-7b", plans, {"any": sizes}, global_batch=64), top=3)
    apart = [plan(asked("llama-2-7b", plans, size, global_batch=64), top=3) for size in sizes]
    assert together.evaluated == sum(one.evaluated for one in apart)
    assert together.feasible == sum(one.feasible for one in apart)
    best = min(p.profile.step_time_s for one in apart for p in one.plans)
    assert min(p.profile.step_time_s for p in together.plans) == pytest.approx(best, rel=1e-3)
    assert together.plans[0].profile.scenario.cluster.name == sizes[-1]


class Checked:
    """Keeps nothing: every so many plans of a block are predicted one by one."""

    limit = np.inf

    def __init__(self, space):
        self.space, self.count = space, 0

    def take(self, block, axes, choice):
        places = np.flatnonzero(block.fits)[self.count % 997 :: 997]
        for fields, place in zip(fields_at(axes, choice, block.along_axes(places)), places, strict=True):
            profile = profile_of(resolved(self.space, fields))
            assert block.step_s.ravel()[place] == pytest.approx(float(profile.step_time_s), rel=1e-9)
            assert block.memory_bytes.ravel()[place] == pytest.approx(float(profile.memory_bytes["total"]), rel=1e-9)
            self.count += 1


@pytest.mark.parametrize(("kind", "framework"), [("latent", "megatron"), ("experts", "deepspeed"), ("dense", "fsdp")])
def test_arrays_are_the_scalar_predictions(kind, framework):
    mapping = asked(MODELS[kind], {"framework": framework, "attention": "flash"}, "16x h100-sxm-80gb", global_batch=32)
    (space,) = load_spaces(mapping)
    checked = Checked(space)
    search_module.search(space, checked)
    assert checked.count > 20


def test_the_largest_batch_is_the_largest_and_the_least_memory_the_least():
    mapping = asked("llama-3.2-1b", {"offload": "none"}, "6x a100-sxm-80gb", global_batch={"at_most": 4999})
    batches = [p.profile.scenario.workload.global_batch for p in plan(mapping, objective="batch").plans]
    assert batches == sorted(batches, reverse=True)
    assert batches[0] == 4999
    values = [p.value for p in plan(mapping, objective="memory").plans]
    assert values == sorted(values)


def test_the_better_plan_is_as_likely_with_and_without_a_whole_run():
    asked_for = asked("llama-3.2-1b", {"offload": "none"}, "6x a100-sxm-80gb", global_batch={"at_most": 100})
    whole = {**asked_for, "workload": asked_for["workload"] | {"total_tokens": 1e10}}
    assert [p.better for p in plan(asked_for).plans] == pytest.approx(
        [p.better for p in plan(whole).plans], nan_ok=True
    )


def test_every_plan_that_is_returned_takes_what_the_search_added_up():
    answer = plan(
        asked("deepseek-v2-lite", {"offload": "none"}, "16x h100-sxm-80gb", global_batch=64), objective="memory", top=5
    )
    values = [p.value for p in answer.plans]
    assert values == pytest.approx(sorted(values), rel=1e-3)
    assert all(p.profile.memory_bytes["total"] == pytest.approx(p.value, rel=1e-9) for p in answer.plans)
    front = plan(
        asked("deepseek-v2-lite", {"offload": "none"}, "16x h100-sxm-80gb", global_batch=64), pareto=("time", "memory")
    )
    points = [(float(p.profile.step_time_s), float(p.profile.memory_bytes["total"])) for p in front.plans]
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(points))
    # Plans of a front that agree to three digits are listed once.
    assert min(p[1] for p in points) == pytest.approx(min(values), rel=1e-3)


LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "max_memory": st.sampled_from(["5 GB", "10 GB", "20 GB", "40 GB"]),
        "deadline": st.sampled_from(["1h", "10h", "100h"]),
        "budget": st.sampled_from(["10", "100", "1000"]),
    },
)


STATED = {"recompute": {"any": ["none", "full"]}, "zero_stage": {"any": [0, 3]}, "offload": "none"}
LIMITED = asked("llama-3.2-1b", STATED, total_tokens=1e8)


@cache
def without_limits(objective):
    return plan(LIMITED, objective=objective)


@settings(max_examples=6, deadline=None)
@given(limits=LIMITS, objective=st.sampled_from(["time", "cost", "energy", "memory"]))
def test_a_limit_never_improves_the_best(limits, objective):
    free, limited = without_limits(objective), plan(LIMITED, objective=objective, **limits)
    assert limited.evaluated == free.evaluated
    assert limited.feasible <= free.feasible
    if limited.plans:
        assert limited.plans[0].value >= free.plans[0].value * (1 - 1e-3)
        for one in limited.plans:
            assert one.profile.memory_bytes["total"] <= {"5 GB": 5e9, "10 GB": 1e10, "20 GB": 2e10, "40 GB": 4e10}.get(
                limits.get("max_memory"), 1e12
            )


def test_a_restricted_field_takes_its_values_alone():
    stated = {"tensor_parallel": {"from": 1, "to": 4, "factor": 2}, "zero_stage": 1, "schedule": "1f1b"}
    answer = plan(asked("llama-2-7b", {**stated, "data_parallel": {"any": [2, 4]}}, "8x a100-sxm-80gb"), top=50)
    plans = [p.profile.scenario.plan for p in answer.plans]
    assert plans
    assert all(p.zero_stage == 1 and p.virtual_stages == 1 and p.data_parallel in (2, 4) for p in plans)
    assert {"tensor_parallel", "data_parallel", "micro_batch"} <= set(answer.free)
    assert "zero_stage" not in answer.free


def test_a_field_outside_the_mesh_makes_a_space_for_each_value():
    mapping = asked(
        "llama-2-7b", {"dtype": {"any": ["bf16", "fp16"]}, "offload": "none", "recompute": "full"}, "8x a100-sxm-80gb"
    )
    both = plan(mapping)
    apart = [
        plan(asked("llama-2-7b", {"dtype": d, "offload": "none", "recompute": "full"}, "8x a100-sxm-80gb"))
        for d in ("bf16", "fp16")
    ]
    assert both.evaluated == sum(one.evaluated for one in apart)
    assert "plan.dtype" in both.free


def test_a_batch_below_a_limit_is_the_largest_that_replicas_divide():
    answer = plan(asked("llama-3.2-1b", {"offload": "none"}, "6x a100-sxm-80gb", global_batch={"at_most": 100}))
    for one in answer.plans:
        scenario = one.profile.scenario
        sequences = scenario.plan.data_parallel * scenario.plan.micro_batch
        assert scenario.workload.global_batch == 100 // sequences * sequences


def test_launchable_plans_have_no_obstacles():
    answer = plan(
        asked("llama-2-7b", {"framework": "torchtitan", "offload": "none"}, "8x h100-sxm-80gb"), launchable=True
    )
    assert answer.plans
    assert all(p.launchable and not p.obstacles for p in answer.plans)
    free = plan(asked("llama-2-7b", {"framework": "torchtitan", "offload": "none"}, "8x h100-sxm-80gb"))
    assert free.evaluated > answer.evaluated


def test_launchable_plans_of_torchtitan_split_sequences_with_matrices():
    stated = {"framework": "torchtitan", "recompute": "none", "offload": "none", "pipeline_parallel": 1}
    stated |= {"tensor_parallel": {"any": [1, 2, 4]}, "micro_batch": 1}
    answer = plan(asked("llama-2-7b", stated, "8x h100-sxm-80gb"), launchable=True, top=1_000)
    assert {p.profile.scenario.plan.tensor_parallel for p in answer.plans} == {1, 2, 4}
    split = [p.profile.scenario.plan for p in answer.plans if p.profile.scenario.plan.tensor_parallel > 1]
    assert all(one.sequence_parallel for one in split)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"objective": "tim"}, "objective is 'tim'; allowed: time, cost, energy, memory, batch - did you mean 'time'?"),
        ({"pareto": ("time",)}, "pareto is 'time'"),
        ({"top": 0}, "top is 0"),
        ({"deadline": "30d"}, "deadline requires workload.total_tokens"),
        ({"free": ["tensor_paralel"]}, "did you mean 'tensor_parallel'?"),
        ({"max_memory": "much"}, "'much'"),
    ],
)
def test_a_wrong_request_is_a_sentence(request_, said):
    with pytest.raises(InputError) as error:
        plan(asked("llama-2-7b", {}, "8x a100-sxm-80gb"), **request_)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("kind", "framework", "objective"),
    [
        ("dense", "megatron", "time"),
        pytest.param("dense", "megatron", "cost", marks=pytest.mark.slow),
        pytest.param("experts", "deepspeed", "time", marks=pytest.mark.slow),
        pytest.param("experts", "deepspeed", "cost", marks=pytest.mark.slow),
        pytest.param("experts", "megatron", "time", marks=pytest.mark.slow),
        pytest.param("experts", "megatron", "cost", marks=pytest.mark.slow),
    ],
)
def test_bounds_leave_out_no_plan_that_is_among_the_best(kind, framework, objective, monkeypatch):
    mapping = asked(
        MODELS[kind],
        {"framework": framework, "offload": "none"},
        {"any": ["8x a100-sxm-80gb", "16x a100-sxm-80gb"]},
        global_batch=16,
    )
    mapping["workload"]["total_tokens"] = 1e9
    whole = plan(mapping, objective=objective, budget="1000")
    monkeypatch.setattr(search_module, "EVALUATED_WHOLE", 0)
    monkeypatch.setattr(search_module, "ROWS_PER_CHUNK", 16)
    bounded = plan(mapping, objective=objective, budget="1000")
    assert bounded.evaluated < whole.evaluated
    assert bounded.rejected["slower"] > 0
    assert [p.value for p in bounded.plans] == pytest.approx([p.value for p in whole.plans], rel=1e-9)


ALLOWED = {
    "schedule": [["1f1b"], ["zero-bubble", "1f1b"], ["1f1b", "zero-bubble"], ["interleaved", "zero-bubble", "1f1b"]],
    "zero_stage": [[3], [1, 3], [3, 1], [0, 1, 2, 3]],
    "sequence_parallel": [[True], [True, False], [False, True]],
}


@pytest.mark.parametrize("launchable", [False, True], ids=["possible", "launchable"])
@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "deepspeed", "transformers"])
@pytest.mark.parametrize("field", ALLOWED)
def test_more_allowed_values_in_any_order_never_lose_a_plan(field, framework, launchable):
    def best(values, devices):
        fixed = {"framework": framework, "offload": "none", "recompute": "full", "attention": "flash", "micro_batch": 1}
        mapping = asked("llama-3.2-1b", fixed | {field: {"any": values}}, devices, global_batch=8)
        found = plan(mapping, objective="memory", launchable=launchable, top=1)
        return found.plans[0].value if found.plans else np.inf, found.evaluated

    for devices in ("1x h100-sxm-80gb", "2x h100-sxm-80gb"):
        (least, count), *others = (best(values, devices) for values in ALLOWED[field])
        for value, evaluated in others:
            assert value <= least * (1 + 1e-12)
            assert evaluated >= count


@pytest.mark.parametrize("framework", ["megatron", "transformers"])
def test_plans_that_bounds_leave_out_are_as_many_as_those_that_are_evaluated_without(framework, monkeypatch):
    mapping = asked("llama-3.2-1b", {"framework": framework, "offload": "none"}, "4x rtx-4090", global_batch=16)

    def valid(answer):
        return answer.evaluated + answer.rejected["micro_batch"] + answer.rejected["slower"]

    whole = plan(mapping, launchable=True)
    monkeypatch.setattr(search_module, "EVALUATED_WHOLE", 0)
    monkeypatch.setattr(search_module, "ROWS_PER_CHUNK", 16)
    assert valid(plan(mapping, launchable=True)) == valid(whole)
    monkeypatch.setattr(Bounds, "least_bytes", lambda self, axes, choice: np.zeros(axes.count))
    assert valid(plan(mapping, launchable=True)) == valid(whole)
