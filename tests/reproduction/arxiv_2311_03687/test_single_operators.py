"""Single operators of the study: what findings judge, and tables that agree with single predictions."""

import pytest

from sightline.reproduction.arxiv_2311_03687 import single_operators
from sightline.reproduction.asking import Ask


@pytest.fixture(scope="module")
def ask():
    return Ask()


def test_nvlink_is_judged_by_the_size_that_gains_least(ours, ask, monkeypatch):
    (as_predicted,) = ours(single_operators.a33, ask)
    plain = single_operators._seconds

    def slower_at_one_size(ask, platform, kind, size):
        hurt = platform == single_operators.RTX_3090_NVLINK and (kind, size) == ("reduce_scatter", single_operators.MIB)
        return plain(ask, platform, kind, size) * (2.0 if hurt else 1.0)

    monkeypatch.setattr(single_operators, "_seconds", slower_at_one_size)
    (hurt,) = ours(single_operators.a33, ask)
    assert hurt < 1.0 < as_predicted
    assert "reduce-scatter of 1 MiB" in single_operators.a33(ask)[0].sentence


@pytest.mark.parametrize(
    ("seconds", "share"),
    [
        (lambda size: 20e-6 + size / 10e9, 1.0),
        (lambda size: size / 10e9, 0.5),
        (lambda size: 20e-6, 0.5),
    ],
    ids=["knee", "no start-up", "no bandwidth"],
)
def test_a_knee_needs_both_a_start_up_and_a_bandwidth(ours, ask, monkeypatch, seconds, share):
    # Of each platform one statement is on small messages and one on large ones.
    monkeypatch.setattr(single_operators, "_seconds", lambda ask, platform, kind, size: seconds(size))
    assert ours(single_operators.a34, ask) == [pytest.approx(share)]


def test_the_ratio_that_is_farthest_from_one_is_judged(ours, ask, monkeypatch):
    plain = single_operators._seconds
    monkeypatch.setattr(
        single_operators,
        "_seconds",
        lambda ask, platform, kind, size: (
            plain(ask, platform, kind, size)
            * (0.5 if kind == "all_gather" and size == single_operators.KIB * 16 else 1.0)
        ),
    )
    (ratio,) = ours(single_operators.a38, ask)
    assert ratio < 0.7
    assert "16 KiB" in single_operators.a38(ask)[0].sentence


def test_tables_have_every_case_once_with_rates_below_the_datasheets(ask):
    found = single_operators.matmuls(ask).answer
    assert len(found) == 3 * len(single_operators.products()) * len(single_operators.BATCHES)
    assert max(row["flops_per_s"] for row in found.rows) < 312e12
    copied = single_operators.copies(ask).answer
    assert len(copied) == 3 * len(single_operators.COPIES) * len(single_operators.SIZES)
    across = [row for row in copied.rows if row["copy"].startswith("host")]
    assert max(row["bytes_per_s"] for row in across) <= 25e9


def test_collectives_name_reduce_and_bus_bandwidths_stay_below_the_links(ask):
    found = single_operators.collectives(ask).answer
    assert {row["collective"] for row in found.rows} == set(single_operators.COLLECTIVES)
    for row in found.rows:
        limit = 200e9 if row["platform"] == "A800" else 31e9
        assert 0.0 < row["bus_bytes_per_s"] < limit
