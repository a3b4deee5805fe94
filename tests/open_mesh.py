"""Training scenarios whose plans are an open mesh, for tests that hold every plan of it to itself alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.scenario import Scenario


def open_mesh(scenario: Scenario, axes: Mapping[str, Sequence[int]]) -> Scenario:
    """Return ``scenario`` with the plan fields of ``axes`` as arrays, one dimension each in their order.

    ``data_parallel`` becomes what is left of the cluster: a fraction where the degrees don't divide it.
    """
    fields: dict[str, Any] = {
        name: np.asarray(values).reshape([-1 if i == own else 1 for i in range(len(axes))])
        for own, (name, values) in enumerate(axes.items())
    }
    plan = replace(scenario.plan, **fields)
    left = scenario.cluster.devices / (plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel)
    return replace(scenario, plan=replace(plan, data_parallel=left))
