"""Times of training and of generation at every node and memory: the best device and plan of all that are searched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.exploration.base import in_view, possible_points
from sightline.exploration.study_answer import View
from sightline.loading import generation_from_mapping, scenario_from_mapping
from sightline.prediction import predict
from sightline.profile import LEVELS
from sightline.progress import SILENT, Progress
from sightline.quantities import Number
from sightline.scenario import Device, GenerationScenario, Scenario
from sightline.technology.budget import Budget
from sightline.technology.law import fastest_clock, split_of, with_l2_share
from sightline.technology.limits import buildable
from sightline.technology.parts import Scaling, link, memories_along, nodes_along
from sightline.technology.synthesis import synthesized

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Best:
    """The best at every point, and figures of it."""

    time_s: Floats
    """Infinite where nothing is possible."""
    figures: Mapping[str, NDArray[Any]]

    def or_better(self, other: "Best") -> "Best":
        """Return, point by point, the better of two that have the same figures; this one where both are equal."""
        better = other.time_s < self.time_s
        figures = {name: np.where(better, other.figures[name], mine) for name, mine in self.figures.items()}
        return Best(time_s=np.where(better, other.time_s, self.time_s), figures=figures)


def best_of(time_s: Any, possible: Any, figures: Mapping[str, Any], points: Sequence[int]) -> Best:
    """Return the least time at every point of a study, and what the figures are there.

    Args:
        time_s: Seconds of all that is searched, at all points.
        possible: What can be built, is valid and fits.
        figures: Numbers that broadcast with the seconds.
        points: Lengths of the study's axes, which come last.
    """
    allowed = np.where(possible, time_s, np.inf)
    searched = allowed.shape[: allowed.ndim - len(points)]
    best = allowed.reshape(-1, *points).argmin(axis=0)
    place = (*np.unravel_index(best, searched), *np.indices(points))

    def there(values: Any) -> NDArray[Any]:
        picked: NDArray[Any] = np.broadcast_to(values, allowed.shape)[place]
        return picked

    return Best(time_s=there(allowed), figures={name: there(values) for name, values in figures.items()})


AXES = ("l2_share", "stacks", "node", "memory")
DIE_AREA_M2 = 826e-6
POWER_W = 400.0
"""Area of the die and power cap of A100."""
KERNELS = ("h100-sxm",)
"""Families whose constants kernels of these devices take in the calibrated view."""
SITES = 6
"""Stacks next to the die at most: the sites of A100's package, of which its product uses five. No package since has
more next to a die of this size: H100 has six, B200 eight for two dies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """Links inside of nodes of eight devices, and the network between nodes with a port for each device."""

    link: str
    """A name among links and among interconnects of the catalog."""
    network: str

    @property
    def name(self) -> str:
        """Both."""
        return f"{self.link} + {self.network}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What devices are made from."""

    nodes: Sequence[str]
    memories: Sequence[str]
    l2_shares: Sequence[float]
    """Shares of L2 in the area that is left for logic, without interfaces."""
    stacks: Sequence[int]
    """Numbers that are tried besides the most that can be built, where so many can be."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Devices:
    """Devices along `AXES`."""

    device: Device
    buildable: Any
    """Where area, edge and power suffice: everywhere, unless not even one stack does."""
    stacks: Any
    most_stacks: Any
    """The most stacks that area, edge, power and package allow, by node and memory."""


def devices(choices: Choices, scaling: Scaling, fabric: Fabric) -> Devices:
    """Return the devices of all choices under a scaling model, with the links of a fabric.

    The clock is the highest that the node allows, or what the power cap leaves.
    """
    links = link(fabric.link)
    node_places = np.arange(len(choices.nodes))[:, None]
    budget = Budget(
        node=nodes_along(choices.nodes, scaling).at(node_places),
        die_area_m2=DIE_AREA_M2,
        power_w=POWER_W,
        memory=memories_along(choices.memories),
        stacks=1.0,
        link=links,
        link_bandwidth=links.bandwidth * (links.usual_count or 1.0),
        relatives=KERNELS,
    )
    shares = np.array(choices.l2_shares)[:, None, None, None]
    most = _most_stacks(budget, shares[:1])
    stacks = np.stack([*(np.minimum(count, most) for count in choices.stacks), most])
    clocked = _clocked(replace(budget, stacks=stacks), shares)
    return Devices(device=synthesized(clocked), buildable=buildable(clocked).mask, stacks=stacks, most_stacks=most)


def _most_stacks(budget: Budget, share: Any) -> Any:
    """The most stacks that can be built, by node and memory, up to `SITES`; 1 where none can."""
    tried = np.arange(1.0, SITES + 1)[:, None, None]
    possible = buildable(_clocked(replace(budget, stacks=tried), share)).mask[0]
    return np.where(possible, tried, 1.0).max(axis=0)


def _clocked(budget: Budget, shares: Any) -> Budget:
    """The budget with shares of L2, at the highest clock that the node allows."""
    split = replace(budget, area=with_l2_share(split_of(budget), shares))
    return replace(split, frequency_hz=fastest_clock(split))


PER_NODE = 8
SERVED_ON = 8
"""Devices that generate."""
SOME_DEVICE = "a100-sxm-80gb"
"""Stands in the scenario until a synthesized device takes its place."""
SHARES = tuple(f"{level}_share" for level in LEVELS)
"""Shares of a time that each level binds."""
RECOMPUTE = ("none", "full")
TENSOR_PARALLEL_OF_GENERATION = (1, 2, 4, 8)
DEGREES = ("tensor_parallel", "pipeline_parallel", "micro_batch")
"""Fields of the plan of training that are searched."""
ONE_PLAN = "training, one plan"
"""Training in which the plan of the oldest node and memory is kept at all others."""
TASKS = ("training", ONE_PLAN, "prefill", "decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """The plans of training that are searched."""

    tensor_parallel: Sequence[int] = (2, 4, 8)
    pipeline_parallel: Sequence[int] = (1, 2, 4, 8, 16, 32)
    micro_batch: Sequence[int] = (1, 2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is searched at every point."""

    choices: Choices
    plans: Plans = field(default_factory=Plans)

    @property
    def points(self) -> tuple[int, int]:
        """Nodes and memories."""
        return len(self.choices.nodes), len(self.choices.memories)

    @property
    def design(self) -> dict[str, Number]:
        """The numbers of devices that are chosen, along `AXES`, besides their stacks."""
        return {"area_of_l2": np.array(self.choices.l2_shares)[:, None, None, None]}


def trainings(
    base: Mapping[str, Any], view: View, fabric: Fabric, found: Devices, search: Search, progress: Progress = SILENT
) -> dict[str, Best]:
    """Return the fastest training step at every node and memory, with the plan searched at each, and with one for all.

    The one plan has the degrees and micro-batch that are best with the first node and memory.
    """
    searched = training(base, view, fabric, found, search, progress)
    first = {name: (int(searched.figures[name].flat[0]),) for name in DEGREES}
    return {
        "training": searched,
        ONE_PLAN: training(base, view, fabric, found, replace(search, plans=Plans(**first)), progress),
    }


STEPS: Final = 2 * len(RECOMPUTE)
"""That `trainings` counts."""


def training(
    base: Mapping[str, Any], view: View, fabric: Fabric, found: Devices, search: Search, progress: Progress = SILENT
) -> Best:
    """Return the fastest training step at every node and memory."""
    return reduce(
        Best.or_better, (_training(base, view, fabric, found, search, recompute, progress) for recompute in RECOMPUTE)
    )


def _training(
    base: Mapping[str, Any],
    view: View,
    fabric: Fabric,
    found: Devices,
    search: Search,
    recompute: str,
    progress: Progress,
) -> Best:
    """The same with one kind of recomputation; the plan's axes come before those of the devices."""
    progress.check()
    plans = search.plans
    degrees = {name: _along(getattr(plans, name), 2 - place + len(AXES)) for place, name in enumerate(DEGREES)}
    stated = {name: int(values.flat[0]) for name, values in degrees.items()}
    count = base["cluster"]["devices"]
    mapping = _on(base, count, fabric)
    scenario = scenario_from_mapping(
        in_view({**mapping, "plan": {**mapping["plan"], **stated, "recompute": recompute}}, view)
    )
    replicas = count / (degrees["tensor_parallel"] * degrees["pipeline_parallel"])
    plan = replace(scenario.plan, **degrees, data_parallel=replicas)
    cluster = replace(scenario.cluster, device=found.device)
    everywhere = replace(scenario, plan=plan, cluster=cluster)
    profile = predict(everywhere)
    progress.advance()
    possible = _possible(everywhere, found, profile.fits)
    figures = {**search.design, **degrees, "recompute": recompute, **_figures(found)}
    return best_of(profile.step_time_s, possible, figures | _shares(profile.levels), search.points)


def _possible(scenario: Scenario | GenerationScenario, found: Devices, fits: Any) -> Any:
    """Where devices can be built, plans break no rule, and both fit."""
    shape = np.broadcast_shapes(np.shape(found.buildable), np.shape(fits))
    return fits & possible_points(scenario, np.broadcast_to(found.buildable, shape), lambda *_: None)


def generation(base: Mapping[str, Any], view: View, fabric: Fabric, found: Devices, search: Search) -> dict[str, Best]:
    """Return the least time to first token (prefill), and per further token (decode), at every node and memory."""
    scenario: GenerationScenario = generation_from_mapping(in_view(_on(base, SERVED_ON, fabric), view))
    tensor = _along(TENSOR_PARALLEL_OF_GENERATION, len(AXES))
    plan = replace(scenario.plan, tensor_parallel=tensor, replicas=SERVED_ON // tensor)
    cluster = replace(scenario.cluster, device=found.device)
    everywhere = replace(scenario, plan=plan, cluster=cluster)
    profile = predict(everywhere)
    figures = {**search.design, "tensor_parallel": tensor, "pipeline_parallel": 1, "micro_batch": 0, "recompute": ""}
    possible = _possible(everywhere, found, profile.fits)
    return {
        phase: best_of(
            profile.figure(key),
            possible,
            {**figures, **_figures(found), **_shares(profile.levels_by_phase[phase])},
            search.points,
        )
        for phase, key in (("prefill", "ttft_s"), ("decode", "tpot_s"))
    }


def _along(values: Sequence[int], after: int) -> Any:
    """Values along an axis that so many others follow."""
    return np.array(values).reshape(-1, *(1,) * after)


def _on(base: Mapping[str, Any], count: int, fabric: Fabric) -> dict[str, Any]:
    cluster = {
        **base.get("cluster", {}),
        "devices": f"{count}x {SOME_DEVICE}",
        "per_node": PER_NODE,
        "intra_node": fabric.link,
        "network": fabric.network,
    }
    return {**base, "cluster": cluster}


def _figures(found: Devices) -> dict[str, Any]:
    """What the best device is."""
    device = found.device
    return {
        "stacks": found.stacks.astype(int),
        "most_stacks": found.most_stacks.astype(int),
        "peak_flops": device.peak_flops["bf16"],
        **{name: getattr(device, name) for name in ("memory_bandwidth", "l2_bandwidth", "memory_bytes", "tdp_w")},
    }


def _shares(levels: Mapping[str, Number]) -> dict[str, Any]:
    """Shares of a time by the level that binds."""
    whole = sum(levels.values())
    return {name: levels[level] / whole for name, level in zip(SHARES, LEVELS, strict=True)}
