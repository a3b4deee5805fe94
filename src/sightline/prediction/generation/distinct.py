"""A list of plans told apart by what a replica's passes depend on: of many plans few are priced.

Plans of a list share replicas: a pass takes as long whichever other replicas there are, and prefill workers run the
same prompts whatever workers decode. A list is made of arrays of one dimension. An open mesh, whose axes lie along
dimensions of their own, is small as it is.
"""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sightline.content import fields_of
from sightline.quantities import distinct, rounded_up
from sightline.scenario import Disaggregation, GenerationPlan, GenerationScenario

Place = NDArray[np.intp]
"""Where each plan of a list is among the distinct ones."""
FEWEST_PLANS = 64
"""Of shorter lists every plan is priced."""
T = TypeVar("T")


def one_replica(scenario: GenerationScenario) -> tuple[GenerationScenario, Place | None]:
    """Return the distinct replicas of a list of plans, each with its share of the batch, and the place of each plan.

    What is not a list comes back as it is, with None.
    """
    plan, work = scenario.plan, scenario.workload
    sequences = rounded_up(work.batch / (plan.data_parallel * plan.replicas))
    shared = replace(work, batch=sequences * plan.data_parallel)
    # Neither moves a pass: memory is worked out plan by plan.
    replica = replace(plan, replicas=1, memory_fraction=1.0, disaggregate=None)
    parts = {"plan": fields_of(replica), "workload": fields_of(shared)}
    columns = {(part, name): x for part, of in parts.items() for name, x in of.items() if isinstance(x, np.ndarray)}
    device = fields_of(scenario.cluster.device).values()
    if not _is_list(list(columns.values())) or plan.speculative is not None or any(map(_holds_arrays, device)):
        return scenario, None
    first, place = distinct(list(columns.values()))
    few: dict[str, dict[str, Any]] = {part: {} for part in parts}
    for (part, name), column in columns.items():
        few[part][name] = column[first]
    replicas = replace(scenario, plan=replace(replica, **few["plan"]), workload=replace(shared, **few["workload"]))
    return replicas, place


def of_some(scenario: GenerationScenario, chosen: Place) -> GenerationScenario:
    """Return the scenario of some plans of a list, by their places."""
    return replace(scenario, plan=_some(scenario.plan, chosen), workload=_some(scenario.workload, chosen))


def _some(described: T, chosen: Place) -> T:
    """A description with some of each list in it."""
    own = fields_of(described)
    columns = {name: value[chosen] for name, value in own.items() if isinstance(value, np.ndarray)}
    parts = {name: _some(x, chosen) for name, x in own.items() if isinstance(x, GenerationPlan | Disaggregation)}
    return replace(described, **columns, **parts)  # type: ignore[type-var]


def _is_list(columns: list[NDArray[Any]]) -> bool:
    return len({column.shape for column in columns}) == 1 and columns[0].ndim == 1 and columns[0].size >= FEWEST_PLANS


def _holds_arrays(value: object) -> bool:
    return any(map(_holds_arrays, value.values())) if isinstance(value, dict) else isinstance(value, np.ndarray)
