"""The stages of a pipeline whose layers are given one by one, and the devices that each stage runs on."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.prediction.training.stages import StageContents
from sightline.quantities import Number
from sightline.scenario import Cluster, LayerKind, Scenario


class Place(NamedTuple):
    """A stage's place in the pipeline and in the cluster."""

    position: int
    """From 0."""
    group: int
    """Position of its group of devices."""


def places_of_stages(cluster: Cluster, stages: int) -> list[Place]:
    """Return the groups that the stages of a pipeline run on, in the order of both."""
    devices_of_stage = cluster.devices // stages
    counts = [part.devices // devices_of_stage for part in cluster.parts]
    groups = [group for group, count in enumerate(counts) for _ in range(count)]
    return [Place(position, group) for position, group in enumerate(groups)]


def contents_of_stage(scenario: Scenario, position: int, kinds: Sequence[Number]) -> StageContents:
    """Return what a stage holds that has so many layers of each of the model's kinds.

    Layers of multi-token prediction are on the last stage.
    """
    plan, model = scenario.plan, scenario.model
    further, last = plan.prediction_layers, position == int(plan.pipeline_parallel) - 1
    tied = last and position > 0 and (model.tied_embeddings or further > 0)
    return StageContents(
        name=f"stage {position + 1}",
        kinds=(*kinds, further * 1.0 * last) if further else tuple(kinds),
        embedding=1.0 * (position == 0),
        head=1.0 * last,
        tied_copy=1.0 * tied,
    )


def stated_stages(scenario: Scenario, layers: Sequence[int]) -> list[StageContents]:
    """Return what the stages hold that have so many layers, in order."""
    kinds = _Kinds.of(scenario.model.kinds)
    ends = list(accumulate(layers))
    starts = [0, *ends[:-1]]
    between = [kinds.between(np.asarray(float(a)), np.asarray(float(b))) for a, b in zip(starts, ends, strict=True)]
    return [contents_of_stage(scenario, i, [float(k) for k in counts]) for i, counts in enumerate(between)]


class Ranges(NamedTuple):
    """Every range of layers that a stage may hold."""

    kinds: tuple[NDArray[np.float64], ...]
    """Layers of each kind, for ranges that differ in them."""
    place: NDArray[np.int64]
    """``place[a, b]``: where among those the layers ``a`` to ``b - 1`` are."""
    valid: NDArray[np.bool_]
    """``valid[a, b]``: whether ``b`` is not before ``a``."""


def ranges_of_layers(scenario: Scenario) -> Ranges:
    """Return every range of layers, those that hold the same as one."""
    return _ranges(tuple((kind.count, kind.leading) for kind in scenario.model.kinds))


@lru_cache(maxsize=16)
def _ranges(kinds: tuple[tuple[int, bool], ...]) -> Ranges:
    of = _Kinds(kinds)
    layers = sum(count for count, _ in kinds)
    a, b = (of_axis.astype(float) for of_axis in np.meshgrid(*[np.arange(layers + 1)] * 2, indexing="ij"))
    counts = np.stack([np.broadcast_to(one, a.shape) for one in of.between(a, np.maximum(a, b))])
    distinct, place = np.unique(counts.reshape(len(kinds), -1), axis=1, return_inverse=True)
    return Ranges(kinds=tuple(distinct), place=place.reshape(a.shape), valid=b >= a)


class _Kinds(NamedTuple):
    """Layers of each kind in order, and whether they lead; those that do not alternate, a fraction of each a layer."""

    counts: tuple[tuple[int, bool], ...]

    @classmethod
    def of(cls, kinds: Sequence[LayerKind]) -> "_Kinds":
        return cls(tuple((kind.count, kind.leading) for kind in kinds))

    def between(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Layers of each kind from layer ``a`` to before layer ``b``."""
        leading = sum(count for count, leads in self.counts if leads)
        others = sum(count for count, leads in self.counts if not leads)
        rest = np.maximum(b, leading) - np.maximum(a, leading)
        return list(self._counted(a, b, rest, max(others, 1)))

    def _counted(
        self, a: NDArray[np.float64], b: NDArray[np.float64], rest: NDArray[np.float64], others: int
    ) -> Iterator[NDArray[np.float64]]:
        start = 0.0
        for count, leads in self.counts:
            if leads:
                yield np.clip(b, start, start + count) - np.clip(a, start, start + count)
                start += count
            else:
                yield rest * count / others
