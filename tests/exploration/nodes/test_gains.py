"""What a logic node gains before 3 nm and after it."""

import pytest

from sightline.exploration.nodes.gains import gains, steps_between, summary
from sightline.exploration.nodes.times import SHARES

NODES = ("12nm", "7nm", "3nm", "1nm")


def _columns(times, levels):
    count = len(NODES)
    fixed = {"task": "training", "view": "ideal", "scaling": "vendor", "network": "old", "memory": "hbm2"}
    columns = {name: [value] * count for name, value in fixed.items()} | {"node": list(NODES), "time_s": times}
    shares = {name: [0.9 if level == name.removesuffix("_share") else 0.025 for level in levels] for name in SHARES}
    return {**columns, **shares, "bound_level": levels, "peak_flops": [1e14, 4e14, 16e14, 128e14]}


COLUMNS = _columns([16.0, 4.0, 1.0, 0.125], ["compute", "compute", "dram", "network"])


def test_gain_is_per_node_also_where_nodes_are_left_out():
    ((early, late),) = gains(COLUMNS).values()
    # A factor of 16 over the four nodes from 12 to 3 nm, of 8 over the three after them.
    assert early == pytest.approx(1.0)
    assert late == pytest.approx(1.0)


def test_steps_are_those_of_the_scaling_model():
    assert steps_between("vendor", "3nm", "1nm") == 3.0
    assert steps_between("ideal", "3nm", "1nm") == pytest.approx(2.0, abs=0.01)
    assert steps_between("ideal", "2nm", "1.4nm") == pytest.approx(0.5, abs=0.02)


def test_summary_tells_ratio_and_sequence():
    told = summary(COLUMNS, NODES)
    assert told["after_over_before"]["ideal"]["vendor"]["training"]["old"]["hbm2"] == pytest.approx(1.0)
    assert told["sequence"]["ideal"]["training"] == ["compute", "dram", "network"]
    assert told["peak_gain_per_node"]["ideal"]["vendor"] == pytest.approx([1.0, 1.0])
    assert told["largest_network_share"]["ideal"]["training"]["node"] == "1nm"


def test_what_binds_nowhere_is_no_part_of_the_sequence_but_may_be_next():
    old = _columns([16.0, 4.0, 1.0, 0.25], ["compute", "compute", "dram", "dram"])
    new = {**_columns([8.0, 2.0, 0.5, 0.1], ["compute"] * 4), "memory": ["hbm4"] * len(NODES)}
    new["compute_share"], new["network_share"] = [0.6] * 4, [0.3] * 4
    told = summary({name: [*old[name], *new[name]] for name in old}, NODES)
    assert told["sequence"]["ideal"]["training"] == ["compute", "dram"]
    assert told["runner_up"]["ideal"]["training"] == {
        "level": "network",
        "share": 0.3,
        "bound_level": "compute",
        "node": "1nm",
        "memory": "hbm4",
        "network": "old",
    }


def test_no_ratio_where_nothing_was_gained_before():
    told = summary(_columns([1.0, 1.0, 1.0, 0.5], ["dram"] * 4), NODES)
    assert told["after_over_before"]["ideal"]["vendor"]["training"]["old"]["hbm2"] is None
