"""Search plans on several kinds of devices: the parts of a cluster that differ, each alone and all together."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from math import inf
from typing import Any, ClassVar, Generic, TypeVar

from sightline.content import fields_of
from sightline.errors import InputError
from sightline.loading.clusters.cluster import joined
from sightline.loading.sources import with_settings
from sightline.planning.clusters import cluster_settings, without_names
from sightline.planning.plan_answer import Counts, NearestPlan, Neighbour, PlanAnswer, RankedPlan
from sightline.prediction import predict
from sightline.profile import Profile
from sightline.scenario import Cluster
from sightline.scenario.cluster import Question
from sightline.scenario.space import Space

Q = TypeVar("Q", bound=Question)
P = TypeVar("P")
INVALID, UNFIT = "invalid", "unfit"
"""Why a plan of the list has no place in the answer: a rule, or memory."""
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


class Listed(Counts, ABC, Generic[P]):
    """The plans of the list that were predicted so far."""

    unshared: ClassVar[str]
    """What a plan is counted under whose batch the kinds of devices cannot share."""
    max_bytes = inf
    """Memory of a device that a plan may take, if less than all."""

    def __init__(self) -> None:
        super().__init__()
        self.plans: list[P] = []
        self.beyond: list[P] = []
        """Plans that fit and exceed a limit; ``plans`` meet all."""

    @abstractmethod
    def broken(self, scenario: Any) -> Collection[str]:
        """Return the rules that a plan breaks."""

    @abstractmethod
    def measured(self, profile: Profile) -> P:
        """Return a plan with the figures that it is compared by."""

    @abstractmethod
    def exceeded(self, plan: P) -> str | None:
        """Return the first limit that a plan exceeds."""

    def add(self, scenario: Any) -> P | str:
        """Predict a plan; return it if it fits, else why it does not count."""
        if broken := self.broken(scenario):
            self.rejected.update(broken)
            return INVALID
        profile = predicted(scenario)
        if profile is None:
            self.rejected[self.unshared] += 1
            return INVALID
        self.evaluated += 1
        if not all_run(profile) or float(profile.memory_bytes["total"]) > self.max_bytes:
            self.rejected["memory"] += 1
            return UNFIT
        plan = self.measured(profile)
        limit = self.exceeded(plan)
        self.rejected.update([limit] if limit else [])
        (self.beyond if limit else self.plans).append(plan)
        self.feasible = len(self.plans)
        return plan

    def answer_beside(
        self, alone: Sequence[PlanAnswer], *, free: Iterable[str], warnings: Iterable[str], **about: Any
    ) -> PlanAnswer:
        """Return the answer with the best plans of the list and of parts of one kind, which were searched ``alone``."""
        searched, said = (tuple(dict.fromkeys(words)) for words in (("cluster", *free), warnings))
        return self.joined(*alone).answer(free=searched, warnings=said, **about)


def predicted(scenario: Any) -> Profile | None:
    """Return the prediction of a plan; None where the kinds of devices cannot share the batch."""
    try:
        return predict(scenario)
    except InputError as error:
        if not str(error).startswith(("workload.batch", "workload.global_batch")):
            raise
        return None


def all_run(profile: Profile) -> bool:
    """Return whether a plan fits and, in a steady loop, no sequence waits for memory, as behind a full cache."""
    return bool(profile.fits) and float(profile.memory_bytes["total"]) < (1.0 - 1e-9) * float(profile.usable_bytes)


def said_of_unlisted(fields: Sequence[str]) -> Iterator[str]:
    """Yield a sentence on free fields of a plan that plans on several kinds of devices do not try."""
    if fields:
        names = ", ".join(f"plan.{name}" for name in fields)
        yield f"plans on heterogeneous devices come from a short list; {names} are not searched"


def left_out(plans: Sequence[RankedPlan], cluster: Cluster) -> Iterator[str]:
    """Yield a sentence where the best plan leaves devices of a cluster out."""
    used = plans[0].profile.scenario.cluster if plans else cluster
    if used.devices < cluster.devices:
        yield f"the best plan uses only {used.in_words} of {cluster.in_words}"


def best_beside(
    best: Profile,
    others: Sequence[Profile],
    stated: Mapping[str, Any],
    value: Callable[[Profile], float],
    because: Callable[[Profile, Profile], str],
) -> Neighbour:
    """Return the best of some plans, which have something ``stated`` in common, next to the best plan of all."""
    values = [value(one) for one in others]
    least = min(range(len(others)), key=values.__getitem__)
    own = value(best)
    loss = values[least] / own - 1 if own else None
    return Neighbour(set=stated, loss=loss, sentence=because(best, others[least]))


def without_plans(parts: Iterable[Space[Any]], having: Collection[str]) -> Iterator[Neighbour]:
    """Yield the parts of one kind of device that are not among those ``having`` a plan, by their words."""
    for part in parts:
        if part.scenario.cluster.in_words not in having:
            yield Neighbour(set=cluster_settings(part.scenario.cluster), loss=None, sentence="no plan fits")


def nearest_on_each_kind(
    parts: Sequence[Space[Q]], command: str, nearest: Callable[[Space[Q], str], Sequence[NearestPlan]]
) -> Iterator[NearestPlan]:
    """Yield the nearest plan on each kind of device alone, given what finds those of a part with its command."""
    for part in parts:
        stated = cluster_settings(part.scenario.cluster)
        for one in nearest(part, with_settings(command, stated))[:1]:
            yield without_names(replace(one, set={**stated, **one.set}))
