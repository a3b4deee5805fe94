"""Scenarios are held against what is required of them; loads are simulated."""

from dataclasses import replace

import pytest
from generation_scenarios import generation
from serving_scenarios import serving
from training_scenarios import training

import sightline as sl
from sightline.requirements.check import requirements


@pytest.fixture(scope="module")
def load():
    return serving(count=30, slo={"ttft": "2 s", "percentile": 95})


def test_a_training_is_predicted():
    found = sl.check(training(model="llama-2-7b", cluster="8x h200-sxm-141gb", global_batch=8), "fits, mfu >= 1 %")
    assert found.met
    assert [one.key for one in found.required] == ["fits", "mfu"]
    assert found.required[1].value == pytest.approx(found.profile.mfu)
    assert found.required[1].interval == found.profile.interval.get("mfu")


def test_requirements_are_a_data_frame():
    plan = {"framework": "deepspeed", "zero_stage": 2}
    scenario = training(model="llama-2-7b", cluster="8x h200-sxm-141gb", global_batch=8, plan=plan)
    found = sl.check(scenario, "fits, mfu >= 1 %, step_time > 5 h, bottleneck != network")
    fits, mfu, time, bottleneck = found.table.rows(named=True)
    assert [row["requirement"] for row in (fits, mfu, time)] == ["fits", "mfu >= 1 %", "step_time > 5 h"]
    assert [row["met"] for row in (fits, mfu, time)] == [one.met for one in found.required[:3]]
    assert (fits["word"], fits["value"]) == ("true", None)
    assert (mfu["word"], mfu["value"]) == (None, pytest.approx(found.profile.mfu))
    assert (mfu["low"], mfu["high"]) == found.required[1].interval
    assert bottleneck["word"] == found.profile.bottleneck


@pytest.mark.slow
def test_a_load_is_simulated(load):
    found = sl.check(load, ["ttft_p90<=60", "ttft_p95<=1 us", "refused==0"])
    assert [one.met for one in found.required] == [True, False, True]
    assert not found.met
    assert found.required[0].value == found.profile.ttft_s["p90"]


@pytest.mark.slow
def test_the_capacity_of_a_server_is_searched_where_it_is_required(load):
    found = sl.check(load, "capacity>=0.01,ttft_p90<=60")
    capacity, ttft = found.required
    assert (capacity.met, ttft.met) == (True, True)
    assert capacity.interval[0] <= capacity.value <= capacity.interval[1]


def test_a_load_that_does_not_fit_has_no_times():
    found = sl.check(serving(model="llama-3.1-70b"), "ttft_p90<=30")
    assert not found.met
    assert found.sentences == ["ttft_p90 is unknown (the plan does not fit in memory); required: at most 30 s: not met"]


def test_what_fits_of_a_load_is_said_without_the_cache_that_fills_the_rest():
    found = sl.check(serving(count=2), "fits")
    needed, cache = (found.profile.memory_bytes[part] / 2**30 for part in ("total", "kv_cache"))
    assert found.met
    assert f"fits is true: needs {needed - cache:.1f} of " in found.sentences[0]
    assert f"({cache:.1f} GiB): met" in found.sentences[0]


@pytest.mark.parametrize("asked", [serving(count=2), generation()], ids=["serve", "generate"])
def test_a_memory_without_an_interval_fits_in_no_whole_interval(asked):
    assert sl.check(asked, "fits").met
    found = sl.check(asked, "fits", whole_interval=True)
    assert not found.met
    assert "(no interval)" in found.sentences[0]
    assert found.sentences[0].endswith(": not met")


def test_that_a_plan_does_not_fit_is_warned_of_where_it_is_not_required():
    asked = training(cluster="1x h100-sxm-80gb")
    assert any("add 'fits'" in said for said in sl.check(asked, "mfu>=1 %").warnings)
    assert not any("add 'fits'" in said for said in sl.check(asked, "fits").warnings)


def test_the_document_has_the_keys_that_are_documented():
    found = sl.check(training(), "fits,step_time<=1 day", whole_interval=True).to_dict()
    assert {"version", "schema", "scenario", "source", "met", "whole_interval", "required", "warnings"} == set(found)
    keys = {"require", "key", "operator", "bound", "value", "interval", "met", "sentence"}
    assert all(set(one) == keys for one in found["required"])
    assert found["required"][1]["bound"] == 86400.0


def test_an_answer_shows_itself_in_a_line():
    assert repr(sl.check(training(), "fits")).startswith("<0 of 1 requirements met: fits is false")


def test_a_figure_of_another_task_is_refused_with_the_scenario_and_its_task(load):
    asked = [replace(training(), name="A training"), replace(load, name="A load")]
    with pytest.raises(sl.InputError) as refused:
        requirements("fits,mfu>=0.35,ttft_p90<=0.5", asked)
    of_training, of_load = refused.value.problems
    assert of_training.startswith("A training: --require 'ttft_p90<=0.5': 'ttft_p90' is not a figure of task pretrain;")
    assert of_load.startswith("A load: --require 'mfu>=0.35': 'mfu' is not a figure of task serve;")


def test_a_mistake_of_all_scenarios_is_said_once_without_their_names():
    with pytest.raises(sl.InputError) as refused:
        requirements("mfuu>=0.35", [replace(training(), name="A"), replace(training(), name="B")])
    (problem,) = refused.value.problems
    assert problem.startswith("--require 'mfuu>=0.35': ")


def test_no_load_is_simulated_for_a_wrong_requirement(load, monkeypatch):
    monkeypatch.setattr("sightline.simulation.simulate.simulate", None)
    with pytest.raises(sl.InputError, match="mfu"):
        sl.check(load, "mfu>=0.3")
