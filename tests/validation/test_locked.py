"""Whole sources are locked as test: nobody meets them without asking for them, and no estimate knows them."""

from types import SimpleNamespace

import pytest

from sightline.catalog import entry, names
from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.prediction.training.constants import beliefs_at_sites
from sightline.validation.evaluation import choose, evaluate, suites

LOCKED = {"gpt-neox-20b", "llama-3-pretraining", "mt-nlg-530b", "published-training-hours"}


def test_locked_sources_are_never_among_the_others():
    assert {suite.name for suite in suites(locked=True)} == LOCKED
    assert not LOCKED & {suite.name for suite in suites()}
    assert not LOCKED & {suite.name for suite in choose()}
    assert {suite.name for suite in choose(locked=True)} == LOCKED


def test_no_constant_was_estimated_from_them():
    sites = {name.split("/", 2)[2].split(" on ")[0] for name in beliefs_at_sites().names if "/site/" in name}
    assert sites
    assert not sites & {entry("published", name)["site"] for name in LOCKED}
    fitted = [entry("inference", name) for name in names("inference")]
    assert not any(name in str(told.get("source", "")) for told in fitted for name in LOCKED)


def test_all_of_a_locked_source_is_test():
    assert {case.split for suite in suites(locked=True) for case in suite.cases} == {"test"}
    assert not any(suite.goal for suite in suites(locked=True))


def test_a_locked_suite_is_not_found_among_the_others():
    with pytest.raises(InputError, match="--locked"):
        choose("mt-nlg-530b")


def test_locked_sources_can_be_asked():
    """Nothing is predicted here: continuous integration never sees how far off they are."""
    for suite in suites(locked=True):
        assert suite.cases
        assert not suite.left_out
        for case in suite.cases:
            assert scenario_from_mapping(case.scenario).workload.global_batch > 0


def test_locked_sources_are_predicted_as_any_users_cluster(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "sightline.prediction.predict",
        lambda scenario: asked.append(scenario) or SimpleNamespace(interval={}, model_flops_per_s_per_device=1.0),
    )
    evaluate(choose("gpt-neox-20b", locked=True))
    assert [scenario.model.name for scenario in asked] == ["gpt-neox-20b"]


def test_goals_say_what_they_are_of():
    for suite in (*suites(), *suites(locked=True)):
        for goal in suite.goal.split(", ") if suite.goal else []:
            assert goal.split()[0] in ("mean", "median", "largest"), suite.name
