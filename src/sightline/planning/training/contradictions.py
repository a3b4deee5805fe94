"""Fixed fields of a plan that exclude each other: a wrong request, where no candidate is left to be searched."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from sightline.scenario import Scenario
from sightline.scenario.rules import broken_by
from sightline.scenario.space import Space

_MOST = 64
"""Combinations of restricted values that are looked at."""
_DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel")


def contradictions(spaces: Sequence[Space[Scenario]]) -> list[str]:
    """Return a sentence for every rule that the fixed fields of all spaces break, whatever is chosen for the others.

    A field that is restricted to several values breaks rules where each of them does. Sentences that are said of all
    spaces and values stand for the others.
    """
    found = [[str(broken) for broken in broken_by(one)] for space in spaces for one in _fixed(space)]
    every = list(dict.fromkeys(sentence for sentences in found for sentence in sentences)) if all(found) else []
    return [sentence for sentence in every if all(sentence in sentences for sentences in found)] or every


def _fixed(space: Space[Scenario]) -> Iterator[Scenario]:
    """Yield the scenarios that the restricted fields allow; of too many values those that are fixed to one alone."""
    fields = {name: values for name, values in space.values.items() if values is not None}
    if prod(map(len, fields.values())) > _MOST:
        fields = {name: values for name, values in fields.items() if len(values) == 1}
    for values in product(*fields.values()):
        yield _chosen(space.scenario, dict(zip(fields, values, strict=True)))


def _chosen(scenario: Scenario, fixed: Mapping[str, Any]) -> Scenario:
    """The scenario with some fields, and the number of replicas that its devices have room for."""
    ranks = 1
    for degree in _DEGREES:
        ranks *= int(fixed.get(degree, 1))
    replicas = max(1, scenario.cluster.devices // ranks)
    return replace(scenario, plan=replace(scenario.plan, **{"data_parallel": replicas, **fixed}))
