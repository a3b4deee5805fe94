"""Samples of different length: what rows they make, padded or packed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.scenario import Pretrain
from sightline.scenario.lengths import DRAWN, Lengths, packed_rows, padded_rows

LOGNORMAL = Lengths(distribution="lognormal", mean=500.0, deviation=400.0)
ANY = st.one_of(
    st.builds(
        lambda m, d: Lengths(distribution="lognormal", mean=m, deviation=d), st.floats(2, 5000), st.floats(0, 5000)
    ),
    st.builds(lambda m, d: Lengths(distribution="normal", mean=m, deviation=d), st.floats(1, 5000), st.floats(0, 2000)),
    st.builds(lambda a, b: Lengths(distribution="uniform", low=a, high=a + b), st.floats(1, 3000), st.floats(0, 3000)),
    st.builds(
        lambda v: Lengths(distribution="empirical", values=tuple(v)),
        st.lists(st.floats(1, 5000), min_size=1, max_size=9),
    ),
)


def test_a_distribution_has_the_moments_it_states():
    drawn = LOGNORMAL.drawn(10**6)
    assert drawn.mean() == pytest.approx(500, rel=0.01)
    assert drawn.std() == pytest.approx(400, rel=0.05)
    uniform = Lengths(distribution="uniform", low=100.0, high=300.0).drawn(10**6)
    assert (uniform.mean(), uniform.std()) == (pytest.approx(200, rel=1e-3), pytest.approx(200 / 12**0.5, rel=1e-2))
    found = Lengths(distribution="empirical", values=(1.0, 2.0, 9.0)).drawn(10**6)
    assert found.size >= DRAWN
    assert found.mean() == pytest.approx(4.0)


@settings(max_examples=30)
@given(ANY, st.integers(16, 8192))
def test_rows_hold_what_fits(lengths, longest):
    packed, padded = packed_rows(lengths, longest), padded_rows(lengths, longest, 4)
    for rows in (packed, padded):
        assert 0 < rows.real <= rows.tokens + 1e-9 <= longest + 2e-9
        # Lengths of parts: their squares add up to no more than the square of the whole.
        assert rows.real_squares <= rows.squares + 1e-6
        assert rows.spread >= 0
    assert packed.squares <= longest**2 * (1 + 1e-12)
    # Whole samples: rows are more than half full on average, or samples fill them alone.
    assert packed.real > 0.5 * longest or packed.real == pytest.approx(padded.real, rel=0.5)


@given(ANY, st.integers(16, 8192))
def test_a_micro_batch_is_as_long_as_its_longest(lengths, longest):
    sizes = np.array([1, 2, 8, 64])
    rows = padded_rows(lengths, longest, sizes)
    assert np.all(np.diff(rows.tokens) >= -1e-9)
    assert rows.tokens[0] == pytest.approx(rows.real)
    for i, size in enumerate(sizes):
        alone = padded_rows(lengths, longest, int(size))
        assert alone.tokens == pytest.approx(rows.tokens[i])
        assert alone.squares == pytest.approx(rows.squares[i])


def test_samples_are_drawn_independently():
    """The mean of the longest of four, against four thousand draws."""
    drawn = LOGNORMAL.drawn(4096)
    sample = np.random.default_rng(0).choice(drawn, (4000, 4)).max(axis=1)
    assert padded_rows(LOGNORMAL, 4096, 4).tokens == pytest.approx(sample.mean(), rel=0.03)


def test_samples_of_full_length_are_rows():
    plain = Pretrain(sequence_length=4096, global_batch=8)
    for packing in (False, True):
        full = Lengths(distribution="uniform", low=4096.0, high=4096.0)
        asked = Pretrain(sequence_length=4096, global_batch=8, lengths=full, packing=packing)
        assert asked.rows(2) == plain.rows(2)
        assert (asked.tokens_per_step, asked.seen_tokens) == (plain.tokens_per_step, plain.seen_tokens) == (32768, 4096)


def test_longer_samples_are_cut():
    assert Lengths(distribution="uniform", low=1.0, high=100.0).cut_share(50) == pytest.approx(0.5, abs=0.01)
    assert LOGNORMAL.drawn(256).max() == 256
