"""Names of mappings that are values of an axis."""

from itertools import product

import pytest
from study_bases import TRAINING

from sightline.exploration.own.axes import named
from sightline.exploration.run import explore

OURS = {"node": "3nm", "memory": "hbm3", "stacks": 5}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["8x a100-sxm-80gb", {"devices": 8, "device": {"technology": OURS}}], ["8x a100-sxm-80gb", "8x 3nm-hbm3"]),
        ([{"name": "ours", "technology": OURS}], ["ours"]),
        ([{"devices": 4, "device": {"name": "ours"}}, {"devices": 4, "device": "h100"}], ["4x ours", "4x h100"]),
        (
            [{"technology": OURS}, {"technology": {**OURS, "stacks": 6}}],
            ["3nm-hbm3, stacks 5", "3nm-hbm3, stacks 6"],
        ),
        ([{"same_as": "h100"}, {"same_as": "h100", "tdp": "1 kW"}], ["h100", "h100, tdp 1 kW"]),
        ([{"layers": 4}, {"layers": 8}], ["layers 4", "layers 8"]),
        (["none", ["mlp", "moe"]], ["none", "mlp, moe"]),
        ([1, 2.0, True, "1"], [1, 2.0, True, "1"]),
    ],
)
def test_names_are_short_and_tell_values_apart(values, names):
    assert named(values) == names


def test_no_two_values_have_one_name():
    values = [{"a": one, "b": {"c": other}} for one, other in product((1, "1"), (2, "2"))]
    assert len(set(named(values))) == len(values)


def test_a_device_of_ones_own_next_to_one_of_the_catalog():
    ours = {"devices": 32, "device": {"technology": OURS}}
    axes = {"cluster": ["32x h100-sxm-80gb", ours], "cluster.network.latency": ["1x", "2x"]}
    answer = explore({"base": TRAINING, "axes": axes})
    assert list(answer.columns["cluster"]) == ["32x h100-sxm-80gb"] * 2 + ["32x 3nm-hbm3"] * 2
    assert answer.axes["cluster"] == ["32x h100-sxm-80gb", "32x 3nm-hbm3"]
    assert "{" not in " ".join(answer.reading)
    assert answer.summary["best"]["calibrated"]["cluster"] in ("32x h100-sxm-80gb", "32x 3nm-hbm3")
