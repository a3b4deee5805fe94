"""Many plans at once: the numeric axes of a plan laid out as an open mesh, predicted by the same functions as one plan.

Each axis lies along an array dimension of its own, so an operator is priced once per distinct shape and only the last
additions touch every plan. The mesh is walked in chunks that stay in the processor's cache. NumPy's inner loop runs along
the last dimension: with the longest axes last a mesh is predicted up to twice as fast.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, nearest
from sightline.prediction.step import profile_of
from sightline.profile import Profile
from sightline.scenario import Scenario
from sightline.scenario.plan import MESH_AXES
from sightline.scenario.rules import verdict

PLANS_PER_CHUNK = 1 << 17
"""About a megabyte per array: few enough to stay cached, many enough to hide NumPy's cost per call."""


def open_mesh(scenario: Scenario, axes: Mapping[str, Sequence[int]]) -> Scenario:
    """Return ``scenario`` with the plan fields of ``axes`` as arrays, one dimension each in their order.

    ``data_parallel`` becomes what is left of the cluster (a fraction where the degrees don't divide it; `valid_plans`
    tells). The micro-batch must be an axis or given.

    Raises:
        InputError: an axis that is not one of ``MESH_AXES``, or no micro-batch.
    """
    unknown = [name for name in axes if name not in MESH_AXES]
    if unknown:
        raise InputError([f"axis '{n}' is not one of {', '.join(MESH_AXES)}{nearest(n, MESH_AXES)}" for n in unknown])
    if scenario.plan.micro_batch is None and "micro_batch" not in axes:
        raise InputError("plan.micro_batch is open; a mesh needs it as an axis or given")
    fields: dict[str, Any] = {
        name: np.asarray(values).reshape([-1 if i == own else 1 for i in range(len(axes))])
        for own, (name, values) in enumerate(axes.items())
    }
    plan = replace(scenario.plan, **fields)
    left = scenario.cluster.devices / (plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel)
    return replace(scenario, plan=replace(plan, data_parallel=left))


def mesh_profiles(
    scenario: Scenario, axes: Mapping[str, Sequence[int]], plans_per_chunk: int = PLANS_PER_CHUNK
) -> Iterator[Profile]:
    """Predict every plan of the mesh and yield array-valued profiles, chunk by chunk along the first axis.

    Concatenated along the first dimension they are the mesh. Plans that are not valid are priced all the same.
    """
    first, values = next(iter(axes.items()))
    plans_per_value = prod(len(v) for v in axes.values()) // len(values)
    step = max(1, plans_per_chunk // plans_per_value)
    for start in range(0, len(values), step):
        yield profile_of(open_mesh(scenario, {**axes, first: values[start : start + step]}))


def valid_plans(scenario: Scenario) -> NDArray[np.bool_]:
    """Return which plans of a mesh could run at all, by the rules that loading applies to a single one."""
    return verdict(scenario).valid
