"""The answers to 2,000 scenarios of every kind, by default one in five, are the ledger's; moves are told by area."""

import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module")
def ledger():
    sys.path.insert(0, str(SCRIPTS))
    import ledger

    yield ledger
    sys.path.remove(str(SCRIPTS))


EVERY = pytest.param(1, id="every", marks=pytest.mark.slow)


@pytest.mark.parametrize("every", [EVERY, 5])
@pytest.mark.parametrize("area", ["training", "generation", "operator", "examples", "published"])
def test_answers_are_those_of_the_ledger(ledger, area, every):
    found = list(ledger.differences([area], every))
    assert not found, f"\n{ledger.summary(found)}\npython scripts/ledger.py rewrite {area}, if that is meant to be"


def test_every_scenario_of_the_list_is_held(ledger):
    scenarios, answers = ([line["key"] for line in ledger.read_lines(p)] for p in (ledger.SCENARIOS, ledger.ANSWERS))
    assert scenarios == answers
    assert len(set(scenarios)) > 1900


def test_the_rows_of_every_answer_sum_to_its_phases(ledger):
    for line in ledger.read_lines(ledger.ANSWERS):
        phases, rows = line.get("phases", {}), line.get("rows", {"exposed_s": {}})["exposed_s"]
        whole_s = sum(phases.values())
        assert set(rows) <= set(phases), line["key"]
        for phase, seconds in phases.items():
            assert rows.get(phase, 0.0) == pytest.approx(seconds, rel=1e-9, abs=1e-9 * whole_s), (line["key"], phase)


def test_a_moved_answer_is_told_with_its_area(ledger, monkeypatch):
    moved = dict(ledger.read_lines(ledger.ANSWERS)[0])
    key = moved.pop("key")
    moved["step_time_s"] = 2.0 * moved["step_time_s"]
    monkeypatch.setattr(ledger, "answer_of", lambda scenario: moved)
    found = list(ledger.differences([key]))
    assert [name for _, name, *_ in found] == ["step_time_s"]
    assert key.rsplit("/", 1)[0] in ledger.summary(found)
