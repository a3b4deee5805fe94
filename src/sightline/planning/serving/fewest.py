"""The fewest replicas that serve a load at its stated times: what is rented for a rate, or for so many users."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import ceil

from sightline.content import fields_of
from sightline.planning.clusters import devices_setting, resizer
from sightline.planning.serving.sweep import Finalist, ServingSpace
from sightline.planning.serving.trial import has_times, objective_in
from sightline.profile import Profile
from sightline.scenario import Cluster
from sightline.simulation.capacity import lasting_share, longer_by
from sightline.simulation.results.totals import meets
from sightline.simulation.server import server_of
from sightline.simulation.simulate import profile_of


def is_of_stated_load(spaces: Sequence[ServingSpace], objective: str) -> bool:
    """Return whether the least rent is asked for, of a load that says when its requests come."""
    return objective == "cost" and all(has_times(space.scenario) for space in spaces)


def of_one_replica(spaces: Sequence[ServingSpace]) -> list[ServingSpace]:
    """Return spaces of one replica each, of every size that fits in the largest cluster of a kind of devices."""
    largest: dict[tuple[str, str], ServingSpace] = {}
    for space in spaces:
        others = {key: value for key, value in space.options.items() if key.partition(".")[0] != "cluster"}
        kind = str(fields_of(space.scenario.cluster.device)), str(others)
        known = largest.get(kind)
        if known is None or known.scenario.cluster.devices < space.scenario.cluster.devices:
            largest[kind] = space
    return [one for space in largest.values() for one in _by_size(space)]


def _by_size(space: ServingSpace) -> Iterator[ServingSpace]:
    """The space of one replica, for each number of devices that it may take."""
    whole = space.scenario.cluster
    counts = space.values.get("replicas", (int(space.scenario.plan.replicas),)) or (1,)
    for size in _sizes(whole, whole.devices // min(counts)):
        cluster = resizer(whole)(size)
        plan = replace(space.scenario.plan, replicas=1)
        yield replace(
            space,
            scenario=replace(space.scenario, cluster=cluster, plan=plan),
            values={**space.values, "replicas": (1,)},
            clusters=(cluster, whole),
            options={**space.options, **devices_setting(whole)},
        )


def _sizes(cluster: Cluster, most: int) -> list[int]:
    """Numbers of devices of a replica: parts of a node that fill it or double, and whole nodes."""
    node = int(cluster.per_node)
    within = {size for size in range(1, node + 1) if node % size == 0 or size & (size - 1) == 0}
    return [size for size in sorted(within | set(range(node, most + 1, node))) if size <= most]


def allowed_counts(stated: Sequence[ServingSpace]) -> tuple[int, ...] | None:
    """Return the numbers of replicas that the question allows; None for any."""
    space = stated[0]
    found = space.values.get("replicas", (int(space.scenario.plan.replicas),))
    return None if found is None else tuple(sorted(found))


def fewest(
    one: Finalist, most: int, counts: Sequence[int] | None = None, check: Callable[[], None] = lambda: None
) -> Finalist | None:
    """Return a layout of one replica with the fewest replicas that keep the objective at the stated load.

    Args:
        one: The layout.
        most: Replicas that there may be.
        counts: Those that are allowed; None for any.
        check: Called before each simulation; it may raise `Cancelled`.
    """
    server, slo = server_of(one.scenario), objective_in(one.scenario)
    if not server.fits:
        return None
    allowed = [count for count in (range(1, most + 1) if counts is None else counts) if count <= most]
    load = one.scenario

    def run(count: int) -> Profile:
        check()
        return profile_of(server, replace(load, plan=replace(load.plan, replicas=count)), intervals=False)

    def keeps(place: int) -> bool:
        nonlocal load
        profile = run(allowed[place])
        if not meets(profile.good_share, slo):
            return False
        longer = longer_by(load, float(profile.requests_per_s) * profile.latency_s["mean"])
        if longer is load:
            return True
        # In a short run a queue that goes on growing is short too.
        load = longer
        return meets(lasting_share(run(allowed[place]), slo), slo)

    guess = ceil(one.lengths.requests_per_s / one.requests_per_s) if one.requests_per_s else 1
    first = sum(count < guess for count in allowed)
    place = _first_that(keeps, len(allowed), min(first, len(allowed) - 1))
    return None if place is None else one.replicated(allowed[place])


def _first_that(keeps: Callable[[int], bool], count: int, guess: int) -> int | None:
    """Return the first place from which on all keep something, of so many, beginning at a guess; None for none."""
    low, high, place, step = -1, count, guess, 1
    while high - low > 1:
        if keeps(place):
            high = place
        else:
            low = place
        if high == count:
            place, step = min(low + step, count - 1), 2 * step
        elif low < 0:
            place, step = max(high - step, 0), 2 * step
        else:
            place = (low + high) // 2
    return None if high == count else high
