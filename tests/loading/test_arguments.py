"""Overrides and sweeps as Python gives them."""

from pathlib import Path

import pytest

from sightline.errors import InputError
from sightline.loading import load

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama-2-7b-zero2-8xa800.yaml"


def test_a_single_override_needs_no_list() -> None:
    assert load(EXAMPLE, "plan.zero_stage=1").plan.zero_stage == 1


def test_a_sweep_may_be_a_range() -> None:
    assert [s.plan.zero_stage for s in load(EXAMPLE, sweeps={"plan.zero_stage": range(3)})] == [0, 1, 2]


@pytest.mark.parametrize(
    ("overrides", "sweeps", "named"),
    [({5: 1}, (), "override 5"), ((), {"plan.zero_stage": 3}, "plan.zero_stage"), ((), {5: [1]}, "5")],
)
def test_wrong_ones_are_sentences(overrides, sweeps, named) -> None:
    with pytest.raises(InputError, match=named):
        load(EXAMPLE, overrides, sweeps)
