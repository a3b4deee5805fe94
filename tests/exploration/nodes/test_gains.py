"""What a logic node gains before 3 nm and after it."""

import pytest

from sightline.exploration.node_narrative import gains, steps_between, summary
from tests.exploration.nodes.columns import NODES, columns

COLUMNS = columns([16.0, 4.0, 1.0, 0.125], ["compute", "compute", "dram", "network"])


def test_gain_is_per_node_also_where_nodes_are_left_out():
    ((early, late),) = gains(COLUMNS).values()
    # A factor of 16 over the four nodes from 12 to 3 nm, of 8 over the three after them.
    assert early == pytest.approx(1.0)
    assert late == pytest.approx(1.0)


def test_steps_are_those_of_the_scaling_model():
    assert steps_between("vendor", "3nm", "1nm") == 3.0
    assert steps_between("ideal", "3nm", "1nm") == pytest.approx(2.0, abs=0.01)
    assert steps_between("ideal", "2nm", "1.4nm") == pytest.approx(0.5, abs=0.02)


def test_summary_tells_ratio_and_peak():
    told = summary(COLUMNS, NODES)
    assert told["after_over_before"]["ideal"]["vendor"]["training"]["old"]["hbm2"] == pytest.approx(1.0)
    assert told["peak_gain_per_node"]["ideal"]["vendor"] == pytest.approx([1.0, 1.0])


def test_no_ratio_where_nothing_was_gained_before():
    told = summary(columns([1.0, 1.0, 1.0, 0.5], ["dram"] * 4), NODES)
    assert told["after_over_before"]["ideal"]["vendor"]["training"]["old"]["hbm2"] is None
