"""Anchors kept under names, and the names that can't be."""

from dataclasses import replace

import pytest
from training_scenarios import training

import sightline as sl
from sightline.anchors.corrected import anchored
from sightline.anchors.sources import listing, save
from sightline.errors import InputError
from sightline.runs import open_store


@pytest.fixture
def known():
    scenario = training(
        model="llama-2-7b",
        cluster="8x a800-sxm-80gb",
        global_batch=16,
        plan={"framework": "deepspeed", "zero_stage": 2},
    )
    seconds = sl.predict(scenario).step_time_s
    return anchored([replace(scenario, measured={"step_time_s": 1.2 * seconds}, name="own")])


def test_what_was_saved_teaches_the_same(known, tmp_path):
    save(known, "lab", str(tmp_path))
    (listed,) = listing(str(tmp_path))
    assert (listed["name"], listed["models"], listed["tasks"]) == ("lab", ["llama-2-7b"], ["training"])
    again = anchored("lab", str(tmp_path))
    asked = known.steps.corrections.timed[0].scenario
    assert sl.predict(asked, anchor=again).step_time_s == pytest.approx(sl.predict(asked, anchor=known).step_time_s)


@pytest.mark.parametrize("name", ["latest", "LATEST", "our.yaml", "step.JSON", "-x", "con/x", "x" * 300])
def test_a_name_that_would_mean_something_else_is_refused(known, tmp_path, name):
    with pytest.raises(InputError, match="anchor name"):
        save(known, name, str(tmp_path))
    assert listing(str(tmp_path)) == []


def test_a_name_that_a_run_begins_with_is_refused(known, tmp_path):
    run = open_store(str(tmp_path)).begin("mine", scenario={}).finish(result={})
    for name in (run.id, run.id[:6]):
        with pytest.raises(InputError, match="stored run"):
            save(known, name, str(tmp_path))
