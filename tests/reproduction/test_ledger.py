"""The ledger of findings: what may stand in it, and what its ranges mean."""

import pytest

from sightline.errors import InputError
from sightline.reproduction import reproduce
from sightline.reproduction.outcomes import Finding
from sightline.reproduction.reproduce import SOURCES

FINDING = {"finding": "it is fast", "expected": "about 2", "criterion": "ratio from 1 to 3", "low": 1, "high": 3}


def read(**changes):
    stated = {key: value for key, value in (FINDING | changes).items() if value is not ...}
    return reproduce.findings_of({"A1": stated}, "findings/study.yaml")["A1"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"low": 4}, "A1.low is 4; allowed: at most its high, 3"),
        ({"low": "fast"}, "A1.low is 'fast'; allowed: a number, or null for an open end"),
        ({"low": float("nan")}, "A1.low is nan"),
        ({"high": True}, "A1.high is true"),
        ({"low": None, "high": ...}, "A1 has neither low nor high"),
        ({"criterion": ...}, "A1.criterion is null; allowed: a text"),
        ({"expected": True}, "A1.expected is true"),
        (
            {"hihg": 2},
            "A1 has 'hihg'; allowed: finding, expected, criterion, low, high, is_strict, interpreted_as, explained -",
        ),
        ({"is_strict": 1}, "A1.is_strict is 1; allowed: true, false"),
    ],
)
def test_an_edited_ledger_is_refused_with_the_key(changes, said):
    with pytest.raises(InputError, match=r"findings/study\.yaml") as refused:
        read(**changes)
    assert said in str(refused.value)


@pytest.mark.parametrize("stated", [None, [], "A1", {}, {"A1": "fast"}, {"first": FINDING}])
def test_what_is_no_ledger_is_refused(stated):
    with pytest.raises(InputError, match="allowed"):
        reproduce.findings_of(stated, "findings/study.yaml")


def test_ends_count_unless_an_ordering_is_strict():
    closed, ordering = read(), read(is_strict=True)
    assert [closed.holds(ours) for ours in (0.99, 1, 3, 3.01)] == [False, True, True, False]
    assert [ordering.holds(ours) for ours in (1, 1.01, 2.99, 3)] == [False, True, True, False]
    assert not closed.holds(None)
    assert not closed.holds(float("nan"))


@pytest.mark.parametrize("other", ["A2", "A9", "A3"])
def test_a_finding_is_interpreted_as_another_that_is_free(other):
    stated = {"A1": FINDING, "A2": FINDING | {"interpreted_as": other}, "A3": FINDING | {"interpreted_as": "A1"}}
    with pytest.raises(InputError, match=rf"A2.interpreted_as is '{other}'; allowed: another finding without it"):
        reproduce.findings_of(stated, "findings/study.yaml")
    assert reproduce.findings_of(stated | {"A2": FINDING}, "findings/study.yaml")["A3"].interpreted_as == "A1"


@pytest.mark.parametrize("source", SOURCES)
def test_every_finding_of_a_source_can_be_judged(source):
    findings = reproduce.read(source)
    assert findings
    assert all(isinstance(one, Finding) and one.id == id_ for id_, one in findings.items())
    numbers = [int(id_[1:]) for id_ in findings]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize(
    ("low", "high", "values", "worst"),
    [
        (1, 3, [1.5, 2.9, 2.0], 2.9),
        (1, 3, [0.5, 2.0, 3.1], 0.5),
        (1, ..., [5.0, 2.0], 2.0),
        (..., 3, [5.0, 2.0], 5.0),
        (1, 3, [2.0, None], None),
        (1, 3, [2.0, float("nan")], None),
        (1, 3, [], None),
    ],
)
def test_several_numbers_are_judged_by_the_one_nearest_to_a_violation(low, high, values, worst):
    assert read(low=low, high=high).worst(values) == worst


def test_a_violation_among_several_numbers_is_never_hidden():
    finding = read(low=1.5, high=2.2)
    assert not finding.holds(finding.worst([1.45, 2.0, 2.19]))
    assert not finding.holds(finding.worst([1.51, 2.25]))
