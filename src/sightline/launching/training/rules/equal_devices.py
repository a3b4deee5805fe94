"""On which devices launches are written: a rule of every framework."""

from sightline.frameworks import Framework
from sightline.launching.training.rules.frameworks import WRITTEN
from sightline.quantities import Count
from sightline.scenario.rules.rulebook import Check, Checks


def equal_nodes(framework: Framework, devices: Count, nodes: Count, group_devices: tuple[int, ...] | None) -> Checks:
    """A launch starts as many processes on each node, on equal devices."""
    if framework.name not in WRITTEN:
        return
    yield Check(
        group_devices is None,
        "cluster.devices are {listed}; launches are written for equal devices",
        {"listed": " + ".join(f"{count:,} of one kind" for count in group_devices or ())},
    )
    yield Check(
        (devices % nodes == 0) | (group_devices is not None),
        "cluster.devices is {devices} on {nodes} nodes; a launch starts as many processes on each, allowed: a multiple "
        "of {nodes}",
    )
