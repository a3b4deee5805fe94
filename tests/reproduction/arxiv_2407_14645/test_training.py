"""Training times and memory against published figures."""

import pytest

from sightline.reproduction.arxiv_2407_14645.training import b1, b3, times
from sightline.reproduction.asking import Ask


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


def test_errors_are_those_of_the_table(ours, ask):
    errors = [abs(row["predicted_s"] / row["measured_s"] - 1) for row in times(ask).answer.rows]
    of_sizes, both = ours(b1, ask)
    assert of_sizes == pytest.approx(sum(errors[:8]) / 8)
    assert both == pytest.approx(sum(errors) / len(errors))


def test_memory_is_judged_by_its_largest_error(ours, ask):
    (largest,) = ours(b3, ask)
    assert 0 < largest < 0.03
    assert "22B 5.7 < 10.2 < 60.0" in b3(ask)[0].sentence
