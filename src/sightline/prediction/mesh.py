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
from sightline.scenario.context_exchange import can_be_cut
from sightline.scenario.plan import MESH_AXES

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
    plan, model, batch = scenario.plan, scenario.model, scenario.workload.global_batch
    t, p, v, d = (
        np.asarray(x) for x in (plan.tensor_parallel, plan.pipeline_parallel, plan.virtual_stages, plan.data_parallel)
    )
    share = d * np.asarray(plan.sequences)
    experts = 1 if model.experts is None else model.experts.count
    e, kept, copies = np.asarray(plan.expert_parallel), plan.expert_shards, plan.copies
    return np.asarray(
        (model.heads % t == 0)
        & (d == np.floor(d))
        & (d >= 1)
        & (np.floor(batch / share) * share == batch)
        & (experts % e == 0)
        & (copies == np.floor(copies))
        & (copies >= 1)
        & (kept == np.floor(kept))
        & (kept >= 1)
        & can_be_cut(model, plan, scenario.workload.sequence_length)
        & (p <= model.layers + 2)
        & ((v == 1) | ((p > 1) & (p * v <= model.layers + 2)))
    )
