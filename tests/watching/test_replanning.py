"""Which plan would be better now: what a search says is what a prediction confirms."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
from watched import LARGE, TINY

import sightline as sl
from sightline.watching.expected import as_mapping
from sightline.watching.replanning import replanned
from sightline.watching.situation import scenario_now


def asked(scenario, **changed):
    return {"scenario": as_mapping(sl.load(scenario)), "cause": "slower", **changed}


def confirmed(scenario, answer, measured_s):
    """Return what predictions say of the gain of an answer, with the step that was measured as anchor."""
    known = sl.anchored([replace(scenario, measured={"step_time_s": measured_s})])
    best = sl.load({**as_mapping(scenario), "plan": {**as_mapping(scenario)["plan"], **_plan(answer)}})
    profile = sl.predict(best, anchor=known)
    assert profile.fits
    return 1 - profile.step_time_s / sl.predict(scenario, anchor=known).step_time_s


def _plan(answer):
    return {key.removeprefix("plan."): value for key, value in answer["set"].items()}


def test_a_better_plan_of_a_slow_job_is_one_that_predictions_confirm():
    scenario = sl.load(TINY)
    measured = 1.5 * sl.predict(scenario).step_time_s
    answer = replanned(asked(TINY, measured_s=measured))
    assert answer["set"]["plan.micro_batch"] == 4
    assert "micro_batch 4 (now 1)" in answer["sentence"]
    assert answer["gain"] > 0.1
    assert answer["gain"] == pytest.approx(confirmed(scenario, answer, measured), rel=1e-6)


@pytest.mark.parametrize("change", [{"devices": 2}, {"devices": 3}, {"sequence_length": 8192}, {"link_factor": 20.0}])
def test_the_plan_for_what_has_changed_is_better_by_what_it_says(change):
    now = scenario_now(sl.load(LARGE), **change)
    measured = 1.1 * sl.predict(now).step_time_s
    answer = replanned(asked(LARGE, measured_s=measured, **change))
    assert answer["gain"] > 0.02
    assert answer["gain"] == pytest.approx(confirmed(now, answer, measured), rel=1e-6)
    assert f"{100 * answer['gain']:.0f} % less time" in answer["sentence"]


def test_the_best_plan_stays_the_best():
    best = sl.plan(sl.load(TINY), top=1, launchable=True).plans[0].profile
    answer = replanned({"scenario": as_mapping(best.scenario), "cause": "slower", "measured_s": 9.0})
    assert not answer["set"]
    assert "still the best" in answer["sentence"]


def test_full_memory_asks_for_a_plan_that_takes_less():
    scenario = {**LARGE, "plan": {**LARGE["plan"], "zero_stage": 2, "micro_batch": 2, "recompute": "none"}}
    present = sl.predict(sl.load(scenario))
    answer = replanned(asked(scenario, cause="memory", memory=0.97 * present.usable_bytes))
    best = sl.load({**scenario, "plan": {**scenario["plan"], **_plan(answer)}})
    assert sl.predict(best).memory_bytes["total"] <= 0.9 * present.usable_bytes
    assert "more time" in answer["sentence"]


def test_where_nothing_leaves_room_that_is_said():
    answer = replanned(asked(LARGE, cause="memory", memory=500e9))
    assert not answer["set"]
    assert answer["sentence"].endswith("that fsdp offers none fits and leaves room")


@pytest.mark.slow
def test_the_command_that_is_named_finds_the_plan_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scenario = sl.load(LARGE)
    measured = 1.2 * sl.predict(scenario_now(scenario, devices=2)).step_time_s
    answer = replanned(asked(LARGE, measured_s=measured, devices=2, folder=str(tmp_path), name="replan-1"))
    words = shlex.split(answer["command"])
    assert words[:2] == ["sightline", "plan"]
    command = [sys.executable, "-m", "sightline", *words[1:], "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    best = json.loads(said.stdout)["plans"][0]
    assert best["step_time_s"] <= 1.003 * answer["best_s"]
    assert (tmp_path / "replan-1.launch" / "launch.sh").is_file()


def test_fewer_devices_keep_each_replicas_samples():
    now = scenario_now(sl.load(LARGE), devices=3)
    assert (now.cluster.devices, now.plan.data_parallel, now.workload.global_batch) == (3, 3, 12)


def test_nothing_that_has_changed_is_the_same_scenario():
    scenario = sl.load(LARGE)
    assert scenario_now(scenario, devices=4, sequence_length=4096.0) is scenario
