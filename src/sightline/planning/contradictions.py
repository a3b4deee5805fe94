"""Fixed fields of a plan that exclude each other: a wrong request, where no candidate is left to be searched."""

from collections.abc import Sequence
from dataclasses import replace

from sightline.scenario import Scenario
from sightline.scenario.rules import broken_by
from sightline.scenario.space import Space

_DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel")


def contradictions(spaces: Sequence[Space[Scenario]]) -> list[str]:
    """Return a sentence for every rule that the fixed fields of all spaces break, whatever is chosen for the others.

    Sentences that are said of all spaces stand for the others.
    """
    found = [[str(broken) for broken in broken_by(_fixed(space))] for space in spaces]
    every = list(dict.fromkeys(sentence for sentences in found for sentence in sentences)) if all(found) else []
    return [sentence for sentence in every if all(sentence in sentences for sentences in found)] or every


def _fixed(space: Space[Scenario]) -> Scenario:
    """The scenario with its fixed fields, and the number of replicas that its devices have room for."""
    scenario = space.scenario
    fixed = {name: values[0] for name, values in space.values.items() if values is not None and len(values) == 1}
    ranks = 1
    for degree in _DEGREES:
        ranks *= int(fixed.get(degree, 1))
    replicas = max(1, scenario.cluster.devices // ranks)
    return replace(scenario, plan=replace(scenario.plan, **{"data_parallel": replicas, **fixed}))
