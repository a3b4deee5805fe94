"""Many plans at once: the numeric axes of a plan laid out as an open mesh, predicted by the same functions as one plan.

Each axis lies along an array dimension of its own, so an operator is priced once per distinct shape and only the last
additions touch every plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.errors import InputError, nearest
from sightline.prediction import needs_equal_devices
from sightline.scenario import Scenario
from sightline.scenario.plan import MESH_AXES


def open_mesh(scenario: Scenario, axes: Mapping[str, Sequence[int]]) -> Scenario:
    """Return ``scenario`` with the plan fields of ``axes`` as arrays, one dimension each in their order.

    ``data_parallel`` becomes what is left of the cluster (a fraction where the degrees don't divide it; `verdict`
    tells). The micro-batch must be an axis or given.

    Raises:
        InputError: an axis that is not one of ``MESH_AXES``, or no micro-batch.
    """
    unknown = [name for name in axes if name not in MESH_AXES]
    if unknown:
        raise InputError([f"axis '{n}' is not one of {', '.join(MESH_AXES)}{nearest(n, MESH_AXES)}" for n in unknown])
    needs_equal_devices(scenario.cluster, "a mesh of plans")
    if scenario.plan.micro_batch is None and "micro_batch" not in axes:
        raise InputError("plan.micro_batch is open; a mesh needs it as an axis or given")
    fields: dict[str, Any] = {
        name: np.asarray(values).reshape([-1 if i == own else 1 for i in range(len(axes))])
        for own, (name, values) in enumerate(axes.items())
    }
    plan = replace(scenario.plan, **fields)
    left = scenario.cluster.devices / (plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel)
    return replace(scenario, plan=replace(plan, data_parallel=left))
