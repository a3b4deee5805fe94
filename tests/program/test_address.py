"""Names in tables follow from an operator's part and from what it makes."""

import pytest

from sightline.program.operators import display_name


@pytest.mark.parametrize(
    ("part", "direction", "name"),
    [
        ("norm", "forward", "norm"),
        ("norm", "backward", "norm gradient"),
        ("flash attention", "backward", "flash attention gradient"),
        ("up", "input gradient", "input gradient"),
        ("up", "weight gradient", "weight gradient"),
        ("bias", "weight gradient", "bias gradient"),
        ("accumulation", "weight gradient", "gradient accumulation"),
        ("adapter A", "input gradient", "adapter A input gradient"),
        ("orthogonalization gram", "update", "orthogonalization gram"),
    ],
)
def test_a_name_is_the_part_and_the_gradient_that_is_made(part, direction, name):
    assert display_name(part, direction) == name
