"""What binds from node to node."""

from sightline.exploration.node_narrative import binding
from tests.exploration.nodes.columns import columns

TIMES = [16.0, 4.0, 1.0, 0.25]


def _together(old, new):
    return {name: [*old[name], *new[name]] for name in old}


def _sequence(told):
    return told["sequence"]["ideal"]["vendor"]["training"]["old"]


def test_sequence_goes_along_the_nodes_and_then_to_the_newest_memory():
    old = columns(TIMES, ["compute", "compute", "dram", "dram"])
    assert _sequence(binding(_together(old, columns(TIMES, ["network"] * 4, "hbm4")))) == [
        "compute",
        "memory",
        "network",
    ]


def test_l2_and_dram_are_memory_together():
    old = columns(TIMES, ["compute"] * 4)
    old["compute_share"][2], old["l2_share"][2], old["dram_share"][2] = 0.4, 0.3, 0.3
    assert _sequence(binding(old)) == ["compute", "memory"]


def test_what_binds_nowhere_is_no_part_of_the_sequence_but_may_be_next():
    old, new = columns(TIMES, ["compute", "compute", "dram", "dram"]), columns(TIMES, ["compute"] * 4, "hbm4")
    new["compute_share"], new["network_share"] = [0.6] * 4, [0.3] * 4
    told = binding(_together(old, new))
    assert _sequence(told) == ["compute", "memory"]
    assert told["runner_up"]["ideal"]["training"] == {
        "level": "network",
        "share": 0.3,
        "bound_level": "compute",
        "node": "1nm",
        "memory": "hbm4",
        "network": "old",
    }


def test_points_without_a_time_bind_nothing():
    old = columns(TIMES, ["compute", "compute", "dram", ""])
    for name in old:
        if name.endswith("_share"):
            old[name][-1] = float("nan")
    assert _sequence(binding(old)) == ["compute", "memory"]


def test_largest_share_of_the_network_is_named():
    most = binding(columns(TIMES, ["compute", "network", "dram", "dram"]))["largest_network_share"]["ideal"]["training"]
    assert (most["node"], most["share"]) == ("7nm", 0.9)
