"""Times of training and of generation at every node and memory: the best device and plan of all that are searched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from sightline.exploration.answer import View
from sightline.exploration.mesh import possible_points
from sightline.exploration.nodes.best import Best, best_of
from sightline.exploration.nodes.devices import AXES, Choices, Devices, Fabric
from sightline.exploration.views import in_view
from sightline.loading import generation_from_mapping, scenario_from_mapping
from sightline.prediction import predict
from sightline.profile import LEVELS
from sightline.quantities import Number
from sightline.scenario import GenerationScenario, Scenario

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


def trainings(base: Mapping[str, Any], view: View, fabric: Fabric, found: Devices, search: Search) -> dict[str, Best]:
    """Return the fastest training step at every node and memory, with the plan searched at each, and with one for all.

    The one plan has the degrees and micro-batch that are best with the first node and memory.
    """
    searched = training(base, view, fabric, found, search)
    first = {name: (int(searched.figures[name].flat[0]),) for name in DEGREES}
    return {
        "training": searched,
        ONE_PLAN: training(base, view, fabric, found, replace(search, plans=Plans(**first))),
    }


def training(base: Mapping[str, Any], view: View, fabric: Fabric, found: Devices, search: Search) -> Best:
    """Return the fastest training step at every node and memory."""
    return reduce(Best.or_better, (_training(base, view, fabric, found, search, recompute) for recompute in RECOMPUTE))


def _training(
    base: Mapping[str, Any], view: View, fabric: Fabric, found: Devices, search: Search, recompute: str
) -> Best:
    """The same with one kind of recomputation; the plan's axes come before those of the devices."""
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
