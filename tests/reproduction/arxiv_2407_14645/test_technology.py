"""The gain from A100 to B200, and logic nodes."""

import pytest

from sightline.reproduction.arxiv_2407_14645.technology import b4, b5, b6, in_order
from sightline.reproduction.asking import Ask

ORDER = ("compute", "memory", "network")


@pytest.mark.parametrize(
    ("found", "count"),
    [
        (["compute", "memory", "network"], 3),
        (["compute", "network", "memory"], 2),
        (["host", "compute", "memory", "host", "network"], 3),
        (["network", "memory", "compute"], 1),
        ([], 0),
    ],
)
def test_what_is_in_order_is_counted(found, count):
    assert in_order(found, ORDER) == count


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


@pytest.mark.slow
def test_the_gain_has_factors_in_both_views(ask):
    (interpretation,) = b4(ask)
    assert interpretation.ours is not None
    assert "ideal view" in interpretation.sentence
    assert "calibrated view" in interpretation.sentence


def test_every_interpretation_of_the_study_of_nodes_is_shown(ask):
    for interpretations in (b5(ask), b6(ask)):
        assert len({one.words for one in interpretations}) == len(interpretations) == 8
        assert all(0 <= one.ours <= 1 for one in interpretations)


def test_memory_and_links_bring_back_what_logic_alone_loses(ask):
    equal, claimed, *_ = b5(ask)
    assert equal.ours == 1.0
    # By foundries' claims the peak itself gains less than half after 3 nm: no memory brings that back.
    assert claimed.ours == 0.5
    assert "bring at least half back" in claimed.sentence
