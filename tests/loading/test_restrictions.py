"""What ``{any: [...]}`` and ``{from, to, factor}`` stand for, and what of them is refused."""

import math
from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading.checks import split_restrictions


def values_of(stated: Any) -> list[Any]:
    return split_restrictions({"plan": {"x": stated}})[1]["plan.x"]


def test_every_value_is_searched_once():
    assert values_of({"any": [1, True, 1, "1", [1], [1]]}) == [1, True, "1", [1]]
    assert values_of({"from": 1, "to": 8}) == [1, 2, 4, 8]


@pytest.mark.parametrize(
    "stated",
    [
        {"from": 1, "to": math.inf},
        {"from": 1, "to": 10**400},
        {"from": math.nan, "to": 1},
        {"from": 1, "to": 8, "factor": 1e300},
    ],
)
def test_ranges_beyond_all_numbers_are_refused(stated):
    with pytest.raises(InputError, match=r"allowed: \{from: 1, to: 64, factor: 2\}"):
        values_of(stated)


def test_a_range_of_too_many_values_is_refused_instead_of_cut():
    with pytest.raises(InputError, match="10,000 values"):
        values_of({"from": 1, "to": 1e27, "factor": 1.0001})
