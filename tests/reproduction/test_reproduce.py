"""Sources reproduced: what may be asked for, which interpretation is judged, and the documented verdicts."""

import json
from pathlib import Path

import pytest

from sightline.errors import InputError
from sightline.progress import Progress
from sightline.reproduction import reproduce as ledger
from sightline.reproduction.outcomes import Finding, Interpretation, Outcome
from sightline.reproduction.reproduce import SOURCES, chosen_of, reproduce, source_of

STATED = Path(__file__).parents[2] / "docs" / "accuracy" / "reproduced.json"
LEAST = {"A": 32, "B": 9, "C": 5}
"""Findings of a group that are reproduced."""


@pytest.mark.parametrize("source", SOURCES)
def test_everything_in_the_ledger_is_answered_and_nothing_else(source):
    described = source_of(source)
    assert set(described.findings) == set(ledger.read(source))
    assert not set(described.findings) & set(described.tables)


@pytest.mark.parametrize(
    ("source", "given", "said"),
    [
        ("2311.0368", {}, "source is '2311.0368'; allowed: 2311.03687, 2407.14645, talk - did you mean '2311.03687'?"),
        ("talk", {"only": ["C9"]}, "only is 'C9'; allowed: C1 to C5"),
        ("talk", {"only": ["strategis"]}, "did you mean 'strategies'?"),
        ("talk", {"only": ["C2-C9"]}, "only is 'C2-C9', but no finding is C9; allowed: C1 to C5"),
        ("talk", {"only": ["c3-c1"]}, "only is 'c3-c1'; allowed: the lower end first, C1-C3"),
        ("talk", {"only": ["C1"], "measure": True}, "talk cannot be measured on this machine"),
    ],
)
def test_what_cannot_be_asked_is_a_sentence(source, given, said):
    with pytest.raises(InputError) as refused:
        reproduce(source, **given)
    assert said in str(refused.value)


def test_findings_are_chosen_and_summed_by_group():
    answer = reproduce("2311.03687", only=["A8", "A10"])
    assert [one.finding.id for one in answer.outcomes] == ["A8", "A10"]
    assert answer.summary["A"]["of"] == 2
    assert not answer.tables


@pytest.mark.parametrize(
    ("only", "findings", "tables"),
    [
        ([], ["C1", "C2", "C3", "C4", "C5"], ["flops", "trends", "gap", "strategies", "plans", "mixed", "kernels"]),
        (["c1", "FLOPS"], ["C1"], ["flops"]),
        (["C2-C4", "c3"], ["C2", "C3", "C4"], []),
        (["c4-5"], ["C4", "C5"], []),
    ],
)
def test_ids_have_any_case_and_findings_are_named_from_one_to_another(only, findings, tables):
    chosen = chosen_of("talk", only)
    assert (chosen.findings, chosen.tables) == (findings, tables)


def test_only_what_is_assumed_for_the_findings_asked_for_is_said():
    of_memory = reproduce("2311.03687", only=["A8"]).assumptions
    assert any("350 tokens" in one for one in of_memory)
    assert not any("LightLLM" in one for one in of_memory)
    assert any("LightLLM" in one for one in source_of("2311.03687").assumed(["A26"]))


@pytest.mark.parametrize("source", SOURCES)
def test_all_that_is_assumed_is_said_of_all_findings_and_tables(source):
    described = source_of(source)
    every = {*described.findings, *described.tables}
    assert described.assumed(every) == [one.sentence for one in described.assumptions]
    assert all(set(one.about) <= every for one in described.assumptions)


def test_tables_are_chosen_alone():
    answer = reproduce("2311.03687", only=["modules"])
    assert not answer.outcomes
    (one,) = answer.tables
    assert (one.id, one.status) == ("modules", "predicted only")
    assert {"phase", "module", "time_s"} <= set(one.answer.columns)


def test_the_first_interpretation_that_holds_is_judged_and_a_miss_says_why():
    finding = Finding(
        id="A1",
        finding="fast",
        expected=2,
        criterion="from 1 to 3",
        low=1,
        high=3,
        explained="The clock is not stated.",
    )
    interpretations = [
        Interpretation(choices={"letter": name}, values=[ours], sentence=f"{ours}.")
        for name, ours in (("x", 9), ("y", 2), ("z", 3))
    ]
    held = Outcome(finding=finding, interpretations=interpretations)
    assert (held.words_of(held.judged), held.reproduced, held.reason) == ("y", True, "2.")
    failed = Outcome(finding=finding, interpretations=interpretations[:1])
    assert (failed.judged.choices, failed.reproduced) == ({"letter": "x"}, False)
    assert failed.reason == "9. The clock is not stated."


def test_a_stopped_reproduction_keeps_what_it_found():
    class AfterOne(Progress):
        def advance(self, count=1):
            super().advance(count)
            self.cancel()

    answer = reproduce("2311.03687", only=["A8", "A10", "modules"], progress=AfterOne())
    assert [one.finding.id for one in answer.outcomes] == ["A8"]
    assert not answer.tables
    assert "stopped before the end" in answer.warnings[0]


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_a_small_run_answers_all_of_a_source(source):
    answer = reproduce(source, small=True)
    assert [one.finding.id for one in answer.outcomes] == list(ledger.read(source))
    assert [one.id for one in answer.tables] == list(source_of(source).tables)
    assert {one.id for one in answer.tables if not one.answer.figures} == {*source_of(source).without_pictures}
    assert any("small" in one for one in answer.assumptions)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_a_source_is_reproduced_as_the_documentation_says(source):
    answer = reproduce(source)
    for group, count in answer.summary.items():
        assert count["reproduced"] >= LEAST[group], group
    assert all(one.finding.explained for one in answer.outcomes if not one.reproduced)
    stated = json.loads(STATED.read_text(encoding="utf-8"))
    alone = {one.finding.id: one.reproduced for one in answer.outcomes}
    assert alone == stated["one by one"][source], "run scripts/update_reproduced.py"
    assert answer.together == stated["together"][source], "run scripts/update_reproduced.py"
    for how in ("likeliest", "every"):
        assert sum(count[how] for count in answer.summary.values()) == len(stated[how][source]), how
    assert all(len(one.answer) for one in answer.tables)


def test_findings_and_tables_are_data_frames():
    answer = reproduce("2311.03687", only=["A8", "phases"])
    row = answer.table.row(0, named=True)
    assert (row["reproduced"], row["interpretations"], row["interpretations_that_hold"]) == (True, 1, 1)
    (table,) = answer.tables
    assert {"phase", "time_s"} <= set(table.table.columns)
    assert [one.finding.id for one in reproduce("talk", only="C1").outcomes] == ["C1"]
