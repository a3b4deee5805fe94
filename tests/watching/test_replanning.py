"""Which plan would be better now: what a search says is what a prediction confirms."""

import json
import shlex
import subprocess
import sys

import pytest
from waiting import PATIENCE_S
from watched import LARGE, TINY

import sightline as sl
from sightline.watching.expected import as_mapping
from sightline.watching.replanning import replanned, scenario_now


def asked(scenario, **changed):
    return {"scenario": as_mapping(sl.load(scenario)), "cause": "slower", **changed}


def confirmed(scenario, answer):
    """Return what predictions of both plans in a situation say of the gain of an answer."""
    best = sl.predict(sl.load(as_mapping(scenario), answer["set"]))
    assert best.fits
    return 1 - best.step_time_s / sl.predict(scenario).step_time_s


def _plan(answer):
    return {key.removeprefix("plan."): value for key, value in answer["set"].items()}


def test_a_better_plan_of_a_slow_job_is_one_that_predictions_confirm():
    scenario = sl.load(TINY)
    measured = 1.5 * sl.predict(scenario).step_time_s
    answer = replanned(asked(TINY, measured_s=measured))
    assert answer["set"]["plan.micro_batch"] == 4
    assert "micro_batch 4 (now 1)" in answer["sentence"]
    assert answer["gain"] > 0.1
    assert answer["gain"] == pytest.approx(confirmed(scenario, answer), rel=1e-6)


CHANGES = [{"devices": 3}, {"sequence_length": 8192}, {"link_factor": 20.0}]


@pytest.mark.parametrize("slower", [1.0, 2.5])
@pytest.mark.parametrize("change", CHANGES)
def test_the_plan_for_what_has_changed_is_better_by_what_it_says(change, slower):
    now = scenario_now(sl.load(LARGE), **change)
    measured = slower * sl.predict(now).step_time_s
    answer = replanned(asked(LARGE, measured_s=measured, **change))
    assert answer["gain"] > 0.02
    assert answer["gain"] == pytest.approx(confirmed(now, answer), rel=1e-6)
    low, high = answer["interval"]["gain"]
    assert low <= answer["gain"] <= high
    assert f"{100 * answer['gain']:.0f} % less time (80 %: {100 * low:.0f} to {100 * high:.0f} %" in answer["sentence"]
    assert answer["advised"] == (low > 0.03) == ("too uncertain to justify a restart" not in answer["sentence"])
    assert ("every plan takes 2.5 x its prediction" in answer["sentence"]) == (slower > 1)


MEGATRON = {
    "model": "llama-3-8b",
    "cluster": "16x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 128},
    "plan": {"framework": "megatron", "tensor_parallel": 2, "micro_batch": 1, "zero_stage": 1},
}


@pytest.mark.parametrize("question", [{"cause": "link", "link_factor": 4.0}, {"cause": "slower"}])
def test_the_host_is_not_blamed_for_a_job_that_is_slower(question):
    scenario = sl.load(MEGATRON)
    measured = 2.0 * sl.predict(scenario).step_time_s
    answer = replanned({"scenario": as_mapping(scenario), "measured_s": measured, **question})
    now = scenario_now(scenario, link_factor=question.get("link_factor", 1.0))
    assert answer["gain"] == pytest.approx(confirmed(now, answer), rel=1e-6)
    assert answer["gain"] < 0.15
    assert not answer["advised"]
    assert answer["factor"] == pytest.approx(measured / sl.predict(now).step_time_s)


def test_devices_that_no_whole_replica_fills_stay_idle_and_that_is_said():
    scenario = sl.load(MEGATRON)
    now = scenario_now(scenario, devices=15)
    assert (now.cluster.devices, now.plan.data_parallel, now.workload.global_batch) == (14, 7, 112)
    answer = replanned({"scenario": as_mapping(scenario), "cause": "devices", "devices": 15})
    assert answer["evaluated"] > 0
    assert "14 of the 15 devices" in answer["sentence"]
    assert answer["present_s"] == pytest.approx(sl.predict(now).step_time_s)


def test_fewer_devices_than_a_replica_has_need_another_plan():
    stated = {**MEGATRON, "plan": {**MEGATRON["plan"], "tensor_parallel": 8}}
    answer = replanned({"scenario": as_mapping(sl.load(stated)), "cause": "devices", "devices": 7})
    assert answer["present_s"] is None
    assert answer["advised"]
    assert "remaining devices" in answer["sentence"]
    assert answer["set"]["plan.tensor_parallel"] < 8


def test_the_best_plan_stays_the_best():
    best = sl.plan(sl.load(TINY), top=1, launchable=True).plans[0].profile
    answer = replanned({"scenario": as_mapping(best.scenario), "cause": "slower", "measured_s": 9.0})
    assert not answer["set"]
    assert "still the best" in answer["sentence"]


def test_full_memory_asks_for_a_plan_that_takes_less():
    scenario = {
        **LARGE,
        "plan": {**LARGE["plan"], "zero_stage": 2, "micro_batch": 2, "recompute": "none", "compile": True},
    }
    present = sl.predict(sl.load(scenario))
    answer = replanned(asked(scenario, cause="memory", memory=0.97 * present.usable_bytes))
    best = sl.load({**scenario, "plan": {**scenario["plan"], **_plan(answer)}})
    assert sl.predict(best).memory_bytes["total"] <= 0.9 * present.usable_bytes
    assert "more time" in answer["sentence"]


def test_where_nothing_leaves_room_that_is_said():
    answer = replanned(asked(LARGE, cause="memory", memory=500e9))
    assert not answer["set"]
    assert "fsdp" in answer["sentence"]


@pytest.mark.slow
def test_the_command_that_is_named_finds_the_plan_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scenario = sl.load(LARGE)
    measured = 1.2 * sl.predict(scenario_now(scenario, devices=2)).step_time_s
    answer = replanned(asked(LARGE, measured_s=measured, devices=2, folder=str(tmp_path), name="replan-1"))
    words = shlex.split(answer["command"])
    assert words[:2] == ["sightline", "plan"]
    command = [sys.executable, "-m", "sightline", *words[1:], "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S)
    best = json.loads(said.stdout)["plans"][0]
    assert best["step_time_s"] <= 1.003 * answer["best_s"]
    assert (tmp_path / "replan-1.launch" / "launch.sh").is_file()


def test_fewer_devices_keep_each_replicas_samples():
    now = scenario_now(sl.load(LARGE), devices=3)
    assert (now.cluster.devices, now.plan.data_parallel, now.workload.global_batch) == (3, 3, 12)


def test_nothing_that_has_changed_is_the_same_scenario():
    scenario = sl.load(LARGE)
    assert scenario_now(scenario, devices=4, sequence_length=4096.0) is scenario
