"""Searches of plans on unlike devices."""

from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading import load
from sightline.planning.search import plan
from sightline.prediction import predict

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
    assert "the best plan runs on 8 x h100-sxm-80gb alone, of 8 x h100-sxm-80gb + 1 x rtx-3090" in answer.warnings


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
    question |= {"plan": {"framework": "megatron"}}
    uniform = plan(question | {"cluster": "16x h100-sxm-80gb"}, top=3)
    answer = plan(question | {"cluster": {"devices": ["16x h100-sxm-80gb", "4x a100-sxm-80gb"]}}, top=3)
    assert [one.value for one in answer.plans] == [one.value for one in uniform.plans]
    assert answer.evaluated > uniform.evaluated
    assert set(uniform.free) <= set(answer.free)


def test_fields_that_mixtures_do_not_try_are_named():
    answer = plan(asked(A100, H100, virtual_stages={"any": [1, 2]}), top=1)
    (said,) = [warning for warning in answer.warnings if "short list" in warning]
    assert "plan.virtual_stages" in said
    assert "plan.tensor_parallel" not in said


def test_shares_of_all_kinds_leave_no_kind_alone():
    answer = plan(asked(A100, H100, group_batches=[24, 40], virtual_stages={"any": [1, 2]}))
    assert answer.plans
    assert all(one.profile.scenario.cluster.devices == 16 for one in answer.plans)
    assert "virtual_stages" not in answer.free


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
    with pytest.raises(InputError, match=f"{next(iter(given))} is for searches on equal devices"):
        plan(asked(A100, H100), **given)


def test_a_mistake_in_a_prediction_is_not_taken_for_the_batch(monkeypatch):
    def wrong(_: object) -> None:
        raise InputError("plan.optimizer is 'x'")

    monkeypatch.setattr("sightline.planning.training.mixed.predict", wrong)
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
