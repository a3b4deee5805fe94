"""What a mesh of plans adds up: seconds, joules and bytes as few summands, each on as few axes as it depends on.

A block of a mesh touches every plan once for each summand, so what is shared is joined first: moments of memory that
differ in small terms only are compared before what they have in common is added.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from sightline.prediction.figures import power_by_phase_w
from sightline.prediction.training.memory.ledger import StageLedger
from sightline.prediction.training.predict import assembled
from sightline.prediction.training.priced import Priced
from sightline.quantities import Number, added_up, anywhere, larger, smaller
from sightline.scenario import Cluster

Terms = tuple[Number, ...]
"""Summands, as few as `merged` leaves."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """Summands of every figure of a mesh that a search looks at."""

    step_s: Terms
    energy_j: Terms
    """Of one step on all devices."""
    peaks: tuple[Terms, ...]
    """Bytes of the fullest device: the largest of these sums."""
    on_host: tuple[Terms, ...]
    """Bytes in the memory of a host: the largest of these sums; none where nothing is offloaded."""


def sums_of(priced: Priced, *, energy: bool = False) -> Sums:
    """Return the summands of a mesh of plans whose operators are priced."""
    times, ledgers = assembled(priced)
    phases = times.terms_of_phases if energy else {}
    cluster = priced.scenario.cluster
    power_w = power_by_phase_w(cluster, phases)
    joules = [cluster.devices * power_w[phase] * term for phase, terms in phases.items() for term in terms]
    return Sums(
        step_s=merged(times.terms),
        energy_j=merged(joules),
        peaks=_compared([terms for ledger in ledgers for terms in ledger.moments]),
        on_host=_on_host(ledgers, priced.scenario.cluster),
    )


def _on_host(ledgers: Sequence[StageLedger], cluster: Cluster) -> tuple[Terms, ...]:
    """Bytes of a node's devices, each taken to keep as much as the one that keeps most."""
    devices = smaller(cluster.per_node, cluster.devices)
    there = [ledger.on_host for ledger in ledgers if any(map(anywhere, ledger.on_host))]
    return tuple(merged([devices * term for term in terms]) for terms in there)


def _compared(moments: Sequence[Sequence[Number]]) -> tuple[Terms, ...]:
    """Return fewer sums with the same largest one: those with the same largest summand share all that they can."""
    alike: dict[int, list[Sequence[Number]]] = {}
    for terms in moments:
        alike.setdefault(id(max(terms, key=np.size)), []).append(terms)
    return tuple(_joined(several) for several in alike.values())


def _joined(moments: Sequence[Sequence[Number]]) -> Terms:
    """Return one sum in the place of several: the summands that all have, and the largest of what they differ in."""
    first, *others = moments
    shared = [term for term in first if all(any(term is one for one in terms) for terms in others)]
    rests = [[term for term in terms if not any(term is one for one in shared)] for terms in moments]
    return merged([*shared, reduce(larger, map(added_up, rests))])


def merged(terms: Iterable[Number], joined: Callable[[Any, Any], Number] = add) -> Terms:
    """Join terms (add them up) as far as no result lies on more axes than one of its terms, the smallest first."""
    groups: list[Number] = []
    for term in sorted(terms, key=np.size):
        for i, group in enumerate(groups):
            if np.broadcast_shapes(np.shape(group), np.shape(term)) in (np.shape(group), np.shape(term)):
                groups[i] = joined(group, term)
                break
        else:
            groups.append(term)
    return tuple(groups)
