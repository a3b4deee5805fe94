"""``plan`` answers a scenario of generation as it does one of training: limits, devices, prices, fronts, mistakes."""

import shlex
from typing import Any

import pytest

from sightline.answers.best_plans import plan_outline
from sightline.answers.plan_sentences import settings
from sightline.errors import InputError
from sightline.launching.registry import ENGINE_WRITERS
from sightline.loading import load, to_mapping
from sightline.planning.search import plan


def asked(**stated: Any) -> dict[str, Any]:
    work = {
        "task": "generate",
        "batch": {"any": [4, 64]},
        "prompt_tokens": 900,
        "output_tokens": 90,
        "continuous": True,
    }
    return {
        "model": "qwen3-8b",
        "cluster": "4x h100-sxm-80gb",
        "workload": work,
        "plan": {"framework": "vllm", "quantization": "none", **stated},
    }


def test_limits_are_read_with_their_units():
    answer = plan(asked(), ttft="400 ms", tpot="0.02", max_memory="60 GB")
    assert answer.objective == "throughput"
    assert answer.plans
    for one in answer.plans:
        assert one.figures["ttft_s"] <= 0.4
        assert one.figures["tpot_s"] <= 0.02
        assert one.profile.memory_bytes["total"] <= 60e9
    assert {"ttft_s", "memory_bytes.total"} & set(answer.rejected)
    with pytest.raises(InputError, match="ttft is '300 m'"):
        plan(asked(), ttft="300 m")


def test_a_relaxed_limit_is_answered_with_the_command_to_try_it():
    answer = plan(asked(), ttft="1 s", tpot="1 us")
    (nearest,) = answer.nearest
    assert nearest.command.startswith("sightline plan FILE --ttft '1 s' --tpot '")
    limits = dict(zip(("ttft", "tpot"), nearest.command.split("'")[1::2], strict=True))
    assert plan(asked(), **limits).plans


def test_devices_are_chosen_by_price():
    devices = ["4x h100-sxm-80gb", "4x a100-sxm-80gb"]
    cheap = plan(asked(), devices=devices, objective="cost", prices=["a100-sxm-80gb=0.01"])
    dear = plan(asked(), devices=devices, objective="cost", prices=["a100-sxm-80gb=1000"])
    names = [answer.plans[0].profile.scenario.cluster.device.name for answer in (cheap, dear)]
    assert names == ["a100-sxm-80gb", "h100-sxm-80gb"]
    assert "cluster" in cheap.free
    assert cheap.plans[0].figures["cost_usd_per_million_tokens"] < dear.plans[0].figures["cost_usd_per_million_tokens"]


def test_a_front_is_in_order_of_its_first_figure():
    answer = plan(asked(), pareto=("interactivity", "throughput"), top=3)
    speeds = [one.figures["output_tokens_per_s_per_user"] for one in answer.plans]
    assert speeds == sorted(speeds, reverse=True)
    assert list(answer.pareto) == list(range(len(answer.plans)))
    with pytest.raises(InputError, match="two objectives"):
        plan(asked(), pareto=("latency", "tpot_s"))


def test_an_answer_can_be_shown():
    assert plan_outline(plan(asked(), top=3))
    assert plan_outline(plan(asked(), tpot="1 us"))


@pytest.mark.parametrize("stated", [{"disaggregate": True}, {"disaggregate": False}])
def test_the_settings_of_a_plan_load_as_that_plan(stated):
    asked_for = {**asked(**stated), "plan": {**stated}}
    answer = plan(asked_for, top=3)
    for one in answer.plans:
        options = shlex.split(" ".join(settings(answer, one)))[1::2]
        own = {**asked_for, "plan": {}, "workload": {**asked_for["workload"], "batch": 1}}
        loaded = load(own, options)
        assert to_mapping(loaded)["plan"] == to_mapping(one.profile.scenario)["plan"]
        assert loaded.workload.batch == one.profile.scenario.workload.batch


def test_what_belongs_to_training_is_refused():
    with pytest.raises(InputError, match="deadline applies to training"):
        plan(asked(), deadline="30d")
    training = {"model": "llama-2-7b", "cluster": "8x a800-sxm-80gb"}
    work = {"task": "pretrain", "sequence_length": 350, "global_batch": 16}
    with pytest.raises(InputError, match=r"tpot applies to workload\.task generate"):
        plan({**training, "workload": work}, tpot="1 s")


def test_a_scenario_may_be_given_with_the_fields_to_search():
    scenario = load({**asked(), "workload": {"task": "generate", "batch": 8, "prompt_tokens": 50, "output_tokens": 9}})
    answer = plan(scenario, free=["tensor_parallel"])
    assert answer.evaluated == 3
    with pytest.raises(InputError, match="did you mean 'tensor_parallel'"):
        plan(scenario, free=["tensor_paralel"])


def test_engines_without_a_launch_are_left_out_unless_all_are_asked_for():
    free = {**asked(), "plan": {}}
    everything, launchable = plan(free, top=1000, launchable=False), plan(free, top=1000)
    assert 0 < launchable.evaluated < everything.evaluated
    assert {one.profile.scenario.plan.engine.name for one in launchable.plans} <= set(ENGINE_WRITERS)
