"""Findings together: one choice of every open setting, and a finding that is interpreted as another."""

import importlib
from dataclasses import replace

import pytest

from sightline.reproduction import reproduce as ledger
from sightline.reproduction.arxiv_2311_03687 import training_findings
from sightline.reproduction.asking import Ask
from sightline.reproduction.outcomes import Finding, Interpretation, OpenSetting, Outcome, Reproduction, taken
from sightline.reproduction.reproduce import SOURCES, reproduce, source_of

LINKS = OpenSetting(name="links", choices={"slow": 1, "fast": 2})
BATCH = OpenSetting(name="batch", choices={"small": 1, "large": 2})


def outcome(id_, *interpretations, given=()):
    """A finding that holds in those of its interpretations, pairs of choices and a verdict, that say so."""
    return Outcome(
        finding=Finding(id=id_, finding="it is so", expected="", criterion="1", low=1, high=None),
        interpretations=[
            Interpretation(choices=choices, values=[float(holds)], sentence="") for choices, holds in interpretations
        ],
        given=dict(given),
    )


def together(*outcomes):
    return Reproduction(source="study", title="", cited="", outcomes=outcomes)


def by(setting, *verdicts):
    return [(taken(choice), holds) for choice, holds in zip(setting, verdicts, strict=True)]


def test_findings_that_hold_with_other_choices_are_lost():
    answer = together(outcome("A1", *by(LINKS, True, False)), outcome("A2", *by(LINKS, False, True)))
    assert answer.summary["A"]["reproduced"] == 2
    assert (answer.choices, answer.together, answer.lost) == ({"links": "slow"}, ["A1"], ["A2"])


def test_findings_are_counted_by_how_many_interpretations_hold():
    answer = together(
        outcome("A1", *by(LINKS, True, True)),
        outcome("A2", *by(LINKS, True, False)),
        outcome("A3", *by(LINKS, False, True)),
        outcome("A4", *by(LINKS, False, False)),
    )
    assert answer.summary == {"A": {"of": 4, "reproduced": 3, "likeliest": 2, "every": 1}}


def test_the_choice_with_most_findings_wins_and_the_first_of_equal_ones():
    most = together(
        outcome("A1", *by(LINKS, True, False)),
        outcome("A2", *by(LINKS, False, True)),
        outcome("A3", *by(LINKS, False, True)),
        outcome("A4", *by(BATCH, True, True)),
    )
    assert most.choices == {"links": "fast", "batch": "small"}
    assert most.together == ["A2", "A3", "A4"]


def test_settings_of_one_finding_are_chosen_together():
    answer = together(
        outcome("A1", *by(LINKS, True, False)),
        outcome("A2", *by(BATCH, True, False)),
        outcome("A3", *[(taken(links, batch), links.value == batch.value == 2) for links in LINKS for batch in BATCH]),
        outcome("A4", *[(taken(links, batch), links.value == batch.value == 2) for links in LINKS for batch in BATCH]),
        outcome("A5", *[(taken(links, batch), links.value == batch.value == 2) for links in LINKS for batch in BATCH]),
    )
    assert answer.choices == {"links": "fast", "batch": "large"}
    assert answer.lost == ["A1", "A2"]


def test_what_is_not_predicted_with_a_choice_is_not_reproduced_with_it():
    answer = together(
        outcome("A1", *by(LINKS, False, True)),
        outcome("A2", *by(LINKS, False, True)),
        outcome("A3", (taken(LINKS.first), True)),
        outcome("A4", ({}, True)),
    )
    assert answer.choices == {"links": "fast"}
    assert answer.together == ["A1", "A2", "A4"]


def test_given_choices_leave_other_interpretations_unjudged():
    free = outcome("A2", *by(LINKS, True, False))
    bound = outcome("A2", *by(LINKS, True, False), given=taken(*list(LINKS)[1:]))
    assert free.reproduced
    assert not bound.reproduced
    assert bound.judged.choices == {"links": "fast"}


def test_attention_is_interpreted_backward_as_it_is_forward():
    """A17 has to have every interpretation of A16, and takes that which judges A16."""
    ask = Ask(small=True)
    assert [one.choices for one in training_findings.a17(ask)] == [one.choices for one in training_findings.a16(ask)]
    assert ledger.read("2311.03687")["A17"].interpreted_as == "A16"
    (alone,) = reproduce("2311.03687", only=["A17"]).outcomes
    forward, backward = reproduce("2311.03687", only=["A16", "A17"]).outcomes
    assert alone.judged.choices == backward.judged.choices == forward.judged.choices


def test_a_finding_is_judged_with_another_ones_choices_even_where_it_would_hold_with_its_own(monkeypatch):
    def held(*verdicts):
        return lambda _: [
            Interpretation(choices=choices, values=[0.3 if holds else 9.0], sentence="")
            for choices, holds in by(LINKS, *verdicts)
        ]

    described = source_of("2311.03687")
    answers = {**described.findings, "A16": held(False, True), "A17": held(True, False)}
    source = replace(described, findings=answers)
    monkeypatch.setattr(importlib.import_module(SOURCES["2311.03687"]), "SOURCE", source)
    (backward,) = reproduce("2311.03687", only=["A17"]).outcomes
    assert backward.given == {"links": "fast"}
    assert (backward.judged.choices, backward.reproduced) == ({"links": "fast"}, False)


@pytest.mark.parametrize("id_", ["A13", "A20", "A7"])
def test_every_interpretation_of_a_finding_is_another_choice(id_):
    (answer,) = reproduce("2311.03687", only=[id_], small=True).outcomes
    taken_ = [str(one.choices) for one in answer.interpretations]
    assert len(set(taken_)) == len(taken_) > 1
    assert all(answer.words_of(one) for one in answer.interpretations)
