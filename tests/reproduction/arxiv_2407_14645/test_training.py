"""Training times and memory against published figures."""

from types import SimpleNamespace

import pytest

from sightline.reproduction.arxiv_2407_14645 import ALL_SIZES, SCALED, TIMES, b1, b3, times
from sightline.reproduction.asking import Ask


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


def test_errors_of_either_sign_count_and_unanswered_steps_do_not(ours):
    errors = {TIMES[ALL_SIZES]: [0.02, -0.04, None], TIMES[SCALED]: [0.12]}

    class Told:
        def suite(self, name):
            answers = [SimpleNamespace(error=one, predicted=None if one is None else 1.0) for one in errors[name]]
            return [SimpleNamespace(answers=answers)]

    assert ours(b1, Told()) == pytest.approx([0.03, 0.06])
    assert [one.sentence.partition(" ")[0] for one in b1(Told())] == ["2", "3"]


def test_every_published_step_is_listed_with_its_error(ask):
    rows = list(times(ask).answer.rows)
    assert [row["source"] for row in rows] == [ALL_SIZES] * 8 + [SCALED] * (len(rows) - 8)
    assert len(rows) > 8
    largest = [row["parameters"] for row in rows[:8]]
    assert largest == sorted(largest)
    assert 0.9e12 < largest[-1] < 1.1e12


def test_memory_is_judged_by_its_largest_error(ours, ask):
    (largest,) = ours(b3, ask)
    assert 0 < largest < 0.03
    assert "22B 5.7 < 10.2 < 60.0" in b3(ask)[0].sentence
