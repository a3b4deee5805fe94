"""Rows of a mesh whose micro-batches are alike: each is priced once, however many plans it is part of."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.content import fields_of
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices
from sightline.program import Program
from sightline.quantities import distinct
from sightline.scenario import Plan, Scenario

WORTH_IT = 0.7
"""Share of the rows that may be distinct: looking the others up takes a little time too."""


class Distinct(NamedTuple):
    """The first of each distinct row, and for every row which of them it is."""

    first: NDArray[np.intp]
    of_row: NDArray[np.intp]


def distinct_rows(plan: Plan) -> Distinct | None:
    """Return the distinct rows of a plan whose fields are arrays along the first axis; None where few are alike."""
    columns = [value for value in fields_of(plan).values() if isinstance(value, np.ndarray)]
    lengths = {len(column) for column in columns if column.ndim} - {1}
    if len(lengths) != 1 or any(column.size != len(column) for column in columns if column.ndim):
        return None
    (rows,) = lengths
    found = Distinct(*distinct([column.ravel() for column in columns if column.size > 1]))
    return found if len(found.first) < WORTH_IT * rows else None


def prices_of_distinct(
    scenario: Scenario, program: Program, prices: Callable[[Scenario], tuple[Program, Prices]]
) -> Prices | None:
    """Return the prices of a program with rows, of which the distinct ones are priced; None where few are alike."""
    found = distinct_rows(scenario.plan)
    if found is None:
        return None
    fields: dict[str, Any] = {
        name: value[found.first]
        for name, value in fields_of(scenario.plan).items()
        if isinstance(value, np.ndarray) and value.size > 1
    }
    priced, own = prices(replace(scenario, plan=replace(scenario.plan, **fields)))

    def of_rows(leg: Any) -> Any:
        return leg[found.of_row] if isinstance(leg, np.ndarray) and leg.ndim and len(leg) > 1 else leg

    pairs = zip(program.operators, priced.operators, strict=True)
    return {id(op): OperatorCost(*map(of_rows, own[id(same)])) for op, same in pairs}
