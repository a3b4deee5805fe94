"""A measured run explained: its own seconds, what is slower than predicted, and gains on the machine it ran on."""

import json

import pytest

import sightline as sl
from sightline.answers.analyses import modules

EXAMPLE = "examples/llama-2-7b-zero2-8xa800.yaml"
SLOW_LINK, ELSEWHERE = 2.5, 1.02


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """A result as ``measure --json`` writes it, whose communication takes longer than predicted."""
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))
    said = sl.predict(sl.load(EXAMPLE)).to_dict(tables=True)
    said["source"] = "measured"
    del said["interval"]
    factors = {name: SLOW_LINK if name == "communication_exposed" else ELSEWHERE for name in said["phases"]}
    said["phases"] = {name: factors[name] * value for name, value in said["phases"].items()}
    for row in said["rows"]:
        row["time_s"] *= factors[row["phase"]]
        row["exposed_s"] *= factors[row["phase"]]
    said["step_time_s"] = sum(said["phases"].values())
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(said))
    return file, said


def test_its_own_table_is_explained_next_to_its_prediction(measured):
    file, said = measured
    found = sl.explain(file)
    assert (found.source, found.whole_s) == ("measured", said["step_time_s"])
    assert sum(one.time_s for one in found.limits) == pytest.approx(found.whole_s)
    assert found.limits[0].limit == "network"
    assert found.limits[0].time_s == pytest.approx(said["phases"]["communication_exposed"])
    assert found.exposed_communication_s == said["phases"]["communication_exposed"]
    sentences = " ".join(found.sentences)
    assert "Slower than predicted by phase: communication exposed" in sentences
    assert "Slower than predicted by module: communication exposed: data parallel" in sentences
    assert f"{SLOW_LINK:.2f} x" in sentences


def test_modules_of_disturbed_steps_are_not_compared(measured):
    file, said = measured
    for row in said["rows"]:
        row["exposed_s"] *= 3
    file.write_text(json.dumps(said))
    found = sl.explain(file)
    sentences = " ".join(found.sentences)
    assert "separate steps" in sentences
    assert "predicted by module" not in sentences
    shares = [float(part.share) for part in modules(found)]
    assert sum(shares) == pytest.approx(1)


def test_the_commands_of_a_run_predict_its_scenario_with_the_run_as_an_anchor(measured):
    file, _ = measured
    found = sl.explain(file)
    for one in found.advice:
        assert one.command.startswith(f"sightline predict {file} --anchor {file} --set ")
    assert sl.predict(sl.load(file)).to_dict() == sl.predict(sl.load(EXAMPLE)).to_dict()


@pytest.mark.slow
def test_gains_are_those_of_the_anchored_prediction(measured):
    file, _ = measured
    found = sl.explain(file)
    scenario = sl.load(EXAMPLE)
    known = sl.anchored([str(file)])
    before = sl.predict(scenario, anchor=known).step_time_s
    assert found.answer.step_time_s == pytest.approx(before)
    for one in found.advice:
        after = sl.predict(sl.load(EXAMPLE, one.set), anchor=known).step_time_s
        assert one.gain_s == pytest.approx(before - after, rel=1e-6)


@pytest.mark.slow
def test_a_measurement_without_a_table_takes_the_prediction_s_shares(measured):
    file, said = measured
    del said["rows"]
    file.write_text(json.dumps(said))
    found = sl.explain(file)
    assert sum(one.time_s for one in found.limits) == pytest.approx(found.whole_s)
    assert {"compute", "memory", "network"} <= {one.limit for one in found.limits}


@pytest.mark.slow
def test_seconds_that_no_phase_holds_are_unmatched(measured):
    file, said = measured
    said["step_time_s"] *= 1.1
    file.write_text(json.dumps(said))
    found = sl.explain(file)
    assert found.unmatched_s == pytest.approx(said["step_time_s"] * (1 - 1 / 1.1))
    assert sum(one.time_s for one in found.limits) == pytest.approx(found.whole_s)


@pytest.mark.slow
def test_a_stored_run_and_the_profile_it_is_of_say_the_same(measured):
    from sightline.runs import open_store

    _, said = measured
    rows, scenario = said.pop("rows"), said["scenario"]
    store = open_store(None)
    writer = store.begin(name="measured", scenario=scenario)
    run = writer.finish(result=said, rows=rows)
    found = sl.explain(run.id)
    assert found.whole_s == said["step_time_s"]
    assert sl.explain("latest").limits == found.limits
    assert sl.explain(run).limits == found.limits
