"""Searches of plans on heterogeneous devices."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.loading import load
from sightline.planning.search import plan as search_launchable
from sightline.prediction import predict
from sightline.profile import Profile

plan = partial(search_launchable, launchable=False)
"""Searches heterogeneous plans, which nothing launches, too."""

A100, H100, L40S = "8x a100-sxm-80gb", "8x h100-sxm-80gb", "8x l40s-48gb"


def asked(*devices: str, **stated: Any) -> dict[str, Any]:
    fixed = {"framework": "megatron", "zero_stage": 1, "recompute": "none", "tensor_parallel": {"any": [1, 2]}}
    fixed |= {"virtual_stages": 1, "schedule": "1f1b", "offload": "none", "context_parallel": 1, "attention": "flash"}
    return {
        "model": "llama-2-7b",
        "cluster": {"devices": list(devices)},
        "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64, "total_tokens": 1e11},
        "plan": fixed | {"pipeline_parallel": {"any": [1, 2, 4]}, "micro_batch": {"any": [1, 2]}} | stated,
    }


def test_the_best_plan_is_the_fastest_of_all_that_are_predicted():
    answer = plan(asked(A100, H100), top=50)
    assert answer.evaluated >= answer.feasible >= len(answer.plans) > 10
    best = answer.plans[0].profile
    for devices in ([A100, H100], [H100, A100]):
        for split in ("pipeline", "data"):
            for stages in (1, 2, 4):
                if split == "pipeline" and stages == 1:
                    continue
                stated = {"tensor_parallel": 1, "pipeline_parallel": stages, "micro_batch": 1, "split": split}
                one = predict(load(asked(*devices, **stated)))
                assert not one.fits or one.step_time_s >= best.step_time_s * (1 - 1e-12)
    assert [one.value for one in answer.plans[1:]] == sorted(one.value for one in answer.plans[1:])
    again = predict(best.scenario)
    assert again.step_time_s == best.step_time_s


@pytest.mark.parametrize("slower", ["8x a100-sxm-80gb", "8x l40s-48gb", "8x rtx-3090"])
def test_one_more_kind_of_device_never_lowers_the_best_throughput(slower):
    narrow = {"tensor_parallel": 1, "micro_batch": 1, "pipeline_parallel": {"any": [1, 2, 3]}}
    alone = plan(asked(H100, A100, **narrow), top=1).plans[0].profile
    more = plan(asked(H100, A100, slower, **narrow), top=1).plans[0].profile
    assert more.tokens_per_s >= alone.tokens_per_s * (1 - 1e-12)


def test_devices_that_only_hold_the_others_up_are_left_out():
    answer = plan(asked(H100, "1x rtx-3090"))
    assert answer.plans[0].profile.scenario.cluster.in_words == "8 x h100-sxm-80gb"
    assert "the best plan uses only 8 x h100-sxm-80gb of 8 x h100-sxm-80gb + 1 x rtx-3090" in answer.warnings


def test_what_does_not_fit_saves_memory_before_it_is_given_up():
    free = asked(A100, H100)
    del free["plan"]["zero_stage"], free["plan"]["recompute"]
    answer = plan(free | {"model": "llama-2-13b"}, top=1)
    assert answer.plans[0].profile.fits
    assert answer.rejected["memory"] > 0


def test_limits_and_other_objectives():
    question = asked(A100, H100, tensor_parallel=1)
    every = plan(question, top=100)
    cheapest = plan(question, objective="cost", top=100)
    assert cheapest.plans[0].value == min(one.figures["cost_usd"] for one in every.plans)
    days = every.plans[len(every.plans) // 2].figures["calendar_time_s"]
    within = plan(question, deadline=days, top=100)
    assert 0 < within.feasible < every.feasible
    assert within.rejected["deadline"] == every.feasible - within.feasible
    small = plan(question, max_memory="60 GB", top=100)
    assert all(one.profile.memory_bytes["total"] <= 60e9 for one in small.plans)
    front = plan(question, pareto=("time", "memory"))
    memory = [one.profile.memory_bytes["total"] for one in front.plans]
    assert memory == sorted(memory, reverse=True)
    ends = plan(question, pareto=("time", "memory"), top=2)
    assert [one.value for one in ends.plans] == [front.plans[place].value for place in (0, -1)]


def test_the_price_of_any_kind_may_be_given():
    usual, dear = (
        plan(asked(A100, H100, tensor_parallel=1, micro_batch=1), top=1, prices=prices)
        for prices in ((), ["a100-sxm-80gb=50"])
    )
    assert dear.plans[0].figures["usd_per_hour"] > usual.plans[0].figures["usd_per_hour"]
    assert set(usual.assumptions) >= {"price of a100-sxm-80gb", "price of h100-sxm-80gb"}


def test_one_kind_alone_is_searched_as_it_would_be_by_itself():
    question = {"model": "llama-2-70b", "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 64}}
    question |= {"plan": {"framework": "megatron", "offload": "none"}}
    uniform = plan(question | {"cluster": "16x h100-sxm-80gb"}, top=3)
    answer = plan(question | {"cluster": {"devices": ["16x h100-sxm-80gb", "4x a100-sxm-80gb"]}}, top=3)
    assert [one.value for one in answer.plans] == [one.value for one in uniform.plans]
    assert answer.evaluated > uniform.evaluated
    assert set(uniform.free) <= set(answer.free)


def test_fields_that_mixtures_do_not_try_are_named():
    free = asked(A100, H100, attention={"any": ["flash", "eager"]})
    del free["plan"]["virtual_stages"]
    answer = plan(free, top=1)
    (said,) = [warning for warning in answer.warnings if "short list" in warning]
    assert "plan.virtual_stages" in said
    assert "plan.tensor_parallel" not in said
    assert "plan.attention" not in said


def test_restricted_fields_are_searched_together():
    both = {"virtual_stages": {"any": [1, 2]}, "recompute": {"any": ["none", "full"]}, "tensor_parallel": 1}
    answer = plan(asked(A100, H100, split="pipeline", **both), objective="memory", top=200)
    tried = {
        (one.profile.scenario.plan.virtual_stages, one.profile.scenario.plan.recompute)
        for one in answer.plans
        if one.profile.scenario.cluster.groups
    }
    assert tried == set(product((1, 2), ("none", "full")))


def test_shares_of_all_kinds_leave_no_kind_alone():
    answer = plan(asked(A100, H100, group_batches=[24, 40]))
    assert answer.plans
    assert all(one.profile.scenario.cluster.devices == 16 for one in answer.plans)


@pytest.mark.parametrize("stated", [{"tensor_parallel": 3}, {"micro_batch": 7}])
def test_contradictions_are_refused_as_on_equal_devices(stated):
    uniform = asked(H100, **stated) | {"cluster": H100}
    with pytest.raises(InputError) as alone:
        plan(uniform)
    with pytest.raises(InputError) as mixed:
        plan(asked(H100, A100, **stated))
    assert set(mixed.value.problems) <= set(alone.value.problems)


@pytest.mark.parametrize("given", [{"workers": "local:2"}, {"where": "found"}])
def test_who_searches_is_refused_on_unlike_devices(given):
    with pytest.raises(InputError, match=f"{next(iter(given))} needs devices of one type"):
        plan(asked(A100, H100), **given)


def test_a_mistake_in_a_prediction_is_not_taken_for_the_batch(monkeypatch):
    def wrong(_: object) -> None:
        raise InputError("plan.optimizer is 'x'")

    monkeypatch.setattr("sightline.planning.heterogeneous_search.predict", wrong)
    with pytest.raises(InputError, match=r"plan\.optimizer"):
        plan(asked(A100, H100))


def test_what_is_not_searched_says_so():
    limit = asked(A100, H100)
    limit["workload"]["global_batch"] = {"at_most": 64}
    with pytest.raises(InputError, match="at_most"):
        plan(limit)


def test_a_stopped_search_shows_what_it_found():
    from sightline.progress import Progress

    progress = Progress(lambda state: progress.cancel() if state.done >= 3 else None, every_s=0.0)
    answer = plan(asked(A100, H100), progress=progress)
    assert answer.stopped
    assert 0 < answer.evaluated < plan(asked(A100, H100)).evaluated


LAYERS = 4


def tiny(*devices: str, hidden: int = 2048, **stated: Any) -> dict[str, Any]:
    """A question about a model of few layers on four devices."""
    shape = {"hidden_size": hidden, "num_hidden_layers": LAYERS, "num_attention_heads": 16, "num_key_value_heads": 16}
    shape |= {"intermediate_size": 3 * hidden, "vocab_size": 32000, "max_position_embeddings": 4096}
    question = asked(*devices, **stated)
    work = {"task": "pretrain", "sequence_length": 2048, "global_batch": 8, "total_tokens": 1e10}
    return question | {"model": {"model_type": "llama", **shape}, "workload": work}


def compositions(whole: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every way to write a number as a sum."""
    if parts == 1:
        yield (whole,)
        return
    for first in range(whole + 1):
        yield from ((first, *rest) for rest in compositions(whole - first, parts - 1))


def every_split(devices: tuple[str, str], **allowed: tuple[Any, ...]) -> Iterator[Profile]:
    """Predictions of every plan on both kinds and on each alone, with every split of layers and of the batch."""
    hidden = allowed.pop("hidden")[0]
    for order, values in product(
        ((devices), devices[::-1], *((kind,) for kind in devices)), product(*allowed.values())
    ):
        fields = dict(zip(allowed, values, strict=True))
        ways: list[dict[str, Any]] = [{}]
        if len(order) == 2:
            stages = fields["pipeline_parallel"]
            ways = [{"split": "pipeline", "stage_layers": list(one)} for one in compositions(LAYERS, stages)]
            ways = (ways if stages > 1 else []) + [
                {"split": "data", "group_batches": list(one)} for one in compositions(8, 2)
            ]
        for way in ways:
            question = tiny(*order, hidden=hidden, **fields, **way)
            if len(order) == 1:
                question["cluster"] = order[0]
            try:
                yield predict(load(question))
            except InputError:
                continue


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(
    devices=st.sampled_from((("2x a100-sxm-80gb", "2x h100-sxm-80gb"), ("2x rtx-3090", "2x rtx-4090"))),
    hidden=st.sampled_from((2048, 4096)),
    tensor_parallel=st.sampled_from(((1,), (2,), (1, 2))),
    stages=st.sampled_from(((1,), (2,), (1, 2))),
    saving=st.sampled_from((((1,), ("none", "full")), ((0, 1), ("none",)), ((0, 1, 2), ("full",)))),
    objective=st.sampled_from(("time", "cost")),
)
def test_the_best_is_that_of_every_split_predicted_alone(devices, hidden, tensor_parallel, stages, saving, objective):
    allowed = {
        "tensor_parallel": tensor_parallel,
        "pipeline_parallel": stages,
        "micro_batch": (1, 2),
        "zero_stage": saving[0],
        "recompute": saving[1],
        "sequence_parallel": (False, True),
    }
    restricted = {name: {"any": list(values)} for name, values in allowed.items()}
    answer = plan(tiny(*devices, hidden=hidden, **restricted), objective=objective, top=50)
    key = "step_time_s" if objective == "time" else "cost_usd"
    alone = [getattr(one, key) for one in every_split(devices, hidden=(hidden,), **allowed) if one.fits]
    assert bool(answer.plans) == bool(alone)
    if alone:
        found = min(getattr(one.profile, key) for one in answer.plans)
        assert found == pytest.approx(min(alone), rel=1e-9)


def test_a_front_of_mixtures_is_spread_over_as_many_plans_as_are_asked_for():
    question = asked(A100, H100, tensor_parallel=1)
    whole, few = (plan(question, pareto=("time", "memory"), top=top) for top in (100, 3))
    assert len(whole.plans) > len(few.plans) == 3
    for end in (0, -1):
        assert few.plans[end].profile.step_time_s == whole.plans[end].profile.step_time_s


def test_values_that_no_mesh_holds_are_searched_on_all_devices():
    question = asked(A100, H100, tensor_parallel=1, pipeline_parallel=1)
    question["workload"] |= {"task": "finetune"}
    both = plan(question | {"plan": question["plan"] | {"adapter": {"any": ["none", "lora"]}}}, top=100)
    adapters = {
        (one.profile.scenario.plan.adapter is None, bool(one.profile.scenario.cluster.groups)) for one in both.plans
    }
    assert adapters == set(product((True, False), (True, False)))


def test_recomputation_gives_way_to_sharding_where_that_is_faster():
    """ZeRO-3 without recomputation fits where ZeRO-1 needs it."""
    free = {"zero_stage": {"any": [1, 3]}, "recompute": {"any": ["none", "full"]}, "tensor_parallel": 1}
    question = asked("4x rtx-4090", "4x rtx-3090", pipeline_parallel=1, micro_batch=1, split="data", **free)
    question["workload"] |= {"sequence_length": 1024}
    question["model"] = "llama-2-7b"
    answer = plan(question, top=50)
    for fields in product((1, 3), ("none", "full")):
        stated = dict(zip(("zero_stage", "recompute"), fields, strict=True))
        alone = plan({**question, "plan": question["plan"] | stated}, top=1).plans
        assert not alone or answer.plans[0].value <= alone[0].value * (1 + 1e-9)
