"""A small table of nodes, one row each."""

from sightline.exploration.node_times import SHARES

NODES = ("12nm", "7nm", "3nm", "1nm")


def columns(times, levels, memory="hbm2"):
    """Return the columns of training at each node, bound mostly by a level."""
    count = len(NODES)
    fixed = {"task": "training", "view": "ideal", "scaling": "vendor", "network": "old", "memory": memory}
    about = {name: [value] * count for name, value in fixed.items()} | {"node": list(NODES), "time_s": times}
    shares = {name: [0.9 if level == name.removesuffix("_share") else 0.025 for level in levels] for name in SHARES}
    return {**about, **shares, "bound_level": levels, "peak_flops": [1e14, 4e14, 16e14, 128e14]}
