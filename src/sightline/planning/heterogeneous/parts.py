"""The parts of a cluster of unlike devices that a search tries: those of one kind alone, and mixtures."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any, TypeVar

from sightline.content import fields_of
from sightline.loading.clusters.cluster import joined
from sightline.planning.answer import RankedPlan
from sightline.scenario import Cluster
from sightline.scenario.cluster import Question
from sightline.scenario.space import Space

Q = TypeVar("Q", bound=Question)

MOST_ORDERED = 3
"""Groups of devices up to which all orders, and all parts of the cluster, are tried."""


def of_one_kind(cluster: Cluster) -> list[Cluster]:
    """Return the parts of a cluster that have devices of one kind: each group, and several groups that are alike."""
    found: dict[tuple[str, int], Cluster] = {}
    for some in _some(cluster.groups):
        part = joined(some)
        if not part.groups:
            found.setdefault((str(fields_of(part.device)), part.devices), part)
    return list(found.values())


def mixtures(cluster: Cluster) -> Iterator[Cluster]:
    """Yield the parts of a cluster that have several kinds of devices, in every order of their groups."""
    groups = cluster.groups
    if len(groups) > MOST_ORDERED:
        yield cluster
        return
    # A network that is none of theirs was stated, and joins fewer groups too.
    own = min(float(group.network.bandwidth_per_node) for group in groups)
    stated = cluster.network if float(cluster.network.bandwidth_per_node) != own else None
    for some in _some(groups):
        for order in permutations(some):
            part = joined(order, between=stated)
            if part.groups:
                yield part


def _some(groups: Sequence[Cluster]) -> Iterator[tuple[Cluster, ...]]:
    """Groups together, the most first; of many groups each alone."""
    most = len(groups) if len(groups) <= MOST_ORDERED else 1
    for count in range(most, 0, -1):
        yield from combinations(groups, count)


def spaces_of_one_kind(space: Space[Q]) -> list[Space[Q]]:
    """Return the space of each part of one kind; none where the plan states the share of every group or stage."""
    question: Any = space.scenario
    plan = question.plan
    if plan.group_batches is not None or getattr(plan, "stage_layers", None) is not None:
        return []
    if getattr(plan, "split", None) is not None:
        plan = replace(plan, split=None)
    return [
        replace(space, scenario=replace(question, cluster=part, plan=plan)) for part in of_one_kind(question.cluster)
    ]


def said_of_unlisted(fields: Sequence[str]) -> Iterator[str]:
    """Yield a sentence on free fields of a plan that plans on several kinds of devices do not try."""
    if fields:
        names = ", ".join(f"plan.{name}" for name in fields)
        yield f"plans on several kinds of devices come from a short list, in which {names} are not searched"


def left_out(plans: Sequence[RankedPlan], cluster: Cluster) -> Iterator[str]:
    """Yield a sentence where the best plan leaves devices of a cluster out."""
    used = plans[0].profile.scenario.cluster if plans else cluster
    if used.devices < cluster.devices:
        yield f"the best plan runs on {used.in_words} alone, of {cluster.in_words}"
