"""Many plans at once: the numeric axes of a plan laid out as an open mesh, predicted by the same functions as one plan.

Each axis lies along an array dimension of its own, so an operator is priced once per distinct shape and only the last
additions touch every plan: sums are made block by block, so small that a block's arrays stay in a core's cache. NumPy's
inner loop runs along the last dimension: with the longest axes last a mesh is predicted faster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import prod
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, nearest
from sightline.prediction import needs_equal_devices
from sightline.prediction.training.offload import fits_on_host
from sightline.prediction.training.predict import assemble, profile_of
from sightline.profile import MEMORY_PARTS, NumbersOnDemand, Profile
from sightline.quantities import Number
from sightline.scenario import Scenario
from sightline.scenario.plan import MESH_AXES

PLANS_PER_CHUNK = 1 << 17
"""About a megabyte per array, worked out in blocks that stay in a core's cache."""

PLANS_PER_BLOCK = 1 << 14
"""128 KiB per array."""
Terms = tuple[Number, ...]
"""Summands, as few as `merged` leaves."""
Shape = tuple[int, ...]
Index = tuple[slice, ...]

_ON_DEMAND = (
    "phases",
    "limits",
    "stages",
    "stage_times",
    "forward_pass_s",
    "rows",
    "interval",
    "advice",
    "model_flops",
    "hardware_flops",
    "energy_per_step_j",
    "evidence",
    "warnings",
)
"""Figures of a chunk that are predicted when they are read."""


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


def mesh_profiles(
    scenario: Scenario, axes: Mapping[str, Sequence[int]], plans_per_chunk: int = PLANS_PER_CHUNK
) -> Iterator[Profile]:
    """Predict every plan of the mesh and yield array-valued profiles, chunk by chunk along the first axis.

    Concatenated along the first dimension they are the mesh. Operators are written and priced once for all chunks;
    step time, memory total and whether it fits are there, what else a profile tells is worked out when it is read.
    Plans that are not valid are priced all the same.
    """
    shape = tuple(len(values) for values in axes.values())
    _, times, ledgers = assemble(open_mesh(scenario, axes))
    step_s = merged(times.terms)
    memory = [merged(terms) for ledger in ledgers for terms in ledger.moments]
    on_host = fits_on_host([ledger.memory for ledger in ledgers], scenario.cluster)
    first, values = next(iter(axes.items()))
    step = max(1, plans_per_chunk // prod(shape[1:]))
    for start in range(0, len(values), step):
        chunk: Index = (slice(start, start + step), *(slice(None) for _ in shape[1:]))
        asked = open_mesh(scenario, {**axes, first: values[start : start + step]})
        chunk_shape = (len(values[start : start + step]), *shape[1:])
        step_time_s = summed(tuple(at(term, chunk) for term in step_s), chunk_shape)
        total = largest_sum([tuple(at(term, chunk) for term in terms) for terms in memory], chunk_shape)
        yield _profile(asked, step_time_s, total, at(on_host, chunk))


def _profile(scenario: Scenario, step_time_s: Number, total: Number, fits_on_host: Any) -> Profile:
    """The profile of a chunk; what is not given is predicted when it is read."""
    whole = cache(lambda: profile_of(scenario))
    parts = {name: partial(_part, whole, name) for name in MEMORY_PARTS}
    return Profile(
        scenario=scenario,
        source="predicted",
        step_time_s=step_time_s,
        memory_bytes=NumbersOnDemand({**parts, "total": total}),
        fits=(total <= scenario.cluster.device.memory_bytes) & fits_on_host,
        **{name: partial(_figure, whole, name) for name in _ON_DEMAND},
    )


def _part(whole: Callable[[], Profile], name: str) -> Number:
    return whole().memory_bytes[name]


def _figure(whole: Callable[[], Profile], name: str, _: Profile) -> Any:
    return getattr(whole(), name)


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


def blocks(shape: Shape, plans: int = PLANS_PER_BLOCK) -> Iterator[Index]:
    """Yield indices of blocks of about so many plans that cover a mesh: whole last axes, a part of one, a first one."""
    whole = next((axis for axis in range(len(shape)) if prod(shape[axis:]) <= plans), len(shape))
    if whole == 0:
        yield tuple(slice(None) for _ in shape)
        return
    cut, step = whole - 1, max(1, plans // prod(shape[whole:]))
    for place in np.ndindex(shape[:cut]):
        for start in range(0, shape[cut], step):
            fixed = (slice(i, i + 1) for i in place)
            yield (*fixed, slice(start, start + step), *(slice(None) for _ in shape[whole:]))


def at(number: Number, index: Index) -> Number:
    """Return a number's part in a block; axes along which it is constant stay as they are."""
    if not isinstance(number, np.ndarray) or number.ndim == 0:
        return number
    own = index[len(index) - number.ndim :]
    return number[tuple(i if size > 1 else slice(None) for i, size in zip(own, number.shape, strict=True))]


def summed(terms: Terms, shape: Shape) -> NDArray[np.float64]:
    """Return the sum of ``terms`` for every plan of a mesh of that shape."""
    out = np.empty(shape)
    for index in blocks(shape):
        _add([at(term, index) for term in terms], out[index])
    return out


def largest_sum(sums: Sequence[Terms], shape: Shape) -> NDArray[np.float64]:
    """Return the largest of several sums for every plan of a mesh of that shape."""
    alone = merged([terms[0] for terms in sums if len(terms) == 1], np.maximum)
    several = [terms for terms in sums if len(terms) > 1]
    out = np.empty(shape)
    scratch = np.empty(min(out.size, 2 * PLANS_PER_BLOCK))
    for index in blocks(shape):
        block = out[index]
        other = scratch[: block.size].reshape(block.shape)
        for i, terms in enumerate([*several, *((number,) for number in alone)]):
            here = [at(term, index) for term in terms]
            if i == 0:
                _add(here, block)
            elif len(here) == 1:
                np.maximum(block, here[0], out=block)
            else:
                np.maximum(block, _add(here, other), out=block)
    return out


def _add(terms: Sequence[Number], out: NDArray[np.float64]) -> NDArray[np.float64]:
    """Write the sum of ``terms`` into ``out`` and return it."""
    np.add(terms[0], terms[1] if len(terms) > 1 else 0.0, out=out)
    for term in terms[2:]:
        np.add(out, term, out=out)
    return out
