"""Latency of generation over the bandwidth of the device memory, from GDDR6 to beyond HBM4 (arXiv 2407.14645).

Every token reads all weights, so that latency falls with the memory's bandwidth until another level binds: the L2
cache, which all that traffic crosses, the links between devices, or the time that kernels take whatever they move.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.exploration.base import StudyRequest, base_of, in_view, name_of, said_of
from sightline.exploration.knees import STARTS, Floats, Knee, knee_of, most_along, with_numbers
from sightline.exploration.study_answer import (
    Column,
    Figure,
    StudyAnswer,
    View,
    by_level,
    columns_of,
    memories,
    result_columns,
)
from sightline.loading import generation_from_mapping
from sightline.prediction import predict
from sightline.profile import GENERATION, LEVELS
from sightline.scenario import GenerationScenario
from sightline.technology.parts import Memory, memory

BASE: Mapping[str, Any] = {
    "workload": {"task": "generate", "batch": 1, "prompt_tokens": 200, "output_tokens": 200},
    "plan": {"framework": "vllm", "dtype": "fp16"},
}
VARIED = ("cluster", "workload.task")
DEVICE = "a100-sxm-80gb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model on as many devices of one node as split its matrices."""

    model: Any
    """A name of the catalog, or a mapping."""
    devices: int

    @property
    def name(self) -> str:
        """The model's."""
        return name_of(self.model)


CASES = (Case(model="llama-2-13b", devices=1), Case(model="llama-2-70b", devices=8))
COUNTS = (1, 2, 4, 8)
"""Devices on which a model that is set is tried."""
CHIPS, STACKS = 12, 5
"""Memory interfaces of the device: chips of a bus of 384 bits, or the five stacks that A100 has."""
MEMORIES = ("gddr6", "gddr6x", "gddr7", "hbm2", "hbm2e", "hbm3", "hbm3e", "hbm4", "hbm4e", "beyond-hbm4e")
QUICK_MEMORIES = ("gddr6", "hbm2e", "hbm3e", "hbm4", "beyond-hbm4e")
SLOWEST, FASTEST = 0.4e12, 100e12
"""Ends of the curve in bytes per second."""
POINTS, QUICK_POINTS = 400, 100
WORDS: Mapping[str, str] = {
    "compute": "arithmetic units",
    "dram": "the memory",
    "l2": "bytes across L2",
    "network": "links between devices",
    "host": "kernel launches of the host",
    STARTS: "kernel launches",
}
"""Levels as sentences name them."""
SECONDS = tuple(f"{level}_s" for level in LEVELS)
ABOUT: Mapping[str, Column] = {
    **result_columns(GENERATION),
    **by_level("{}_s", "s"),
    "memory": memories(MEMORIES),
    "units": Column(label="stacks or chips"),
    "bandwidth": Column(label="memory bandwidth", unit="B/s"),
    "memory_bytes": Column(label="capacity", unit="B"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """The latency of a case in a view over the memory's bandwidth."""

    case: Case
    view: View
    bandwidth: Floats
    latency_s: Floats
    knee: Knee | None
    next_knee: Knee | None
    """The knee if L2 kept up with the memory."""
    most: Sequence[str]
    """What matters most along rising bandwidths, in order."""


def study(request: StudyRequest) -> StudyAnswer:
    """Return latencies by memory, model and view, and the knees of their curves."""
    base = base_of(BASE, request, VARIED)
    views = request.views("both")
    memories = [memory(name) for name in (QUICK_MEMORIES if request.quick else MEMORIES)]
    grid = np.geomspace(SLOWEST, FASTEST, QUICK_POINTS if request.quick else POINTS)
    rows: list[dict[str, Any]] = []
    curves = []
    cases = _cases(base)
    for case, view in request.progress.over(list(product(cases, views)), "predicting"):
        scenario = _scenario(base, case, view)
        rows += _rows(scenario, case, view, memories)
        curves.append(_curve(scenario, case, view, grid))
    if not rows:
        request.progress.check()
    return StudyAnswer(
        study="dram",
        title="Latency of generation by memory technology, on an A100-class device",
        axes={"model": [case.name for case in cases], "memory": [one.name for one in memories], "view": views},
        columns=columns_of(rows),
        about=ABOUT,
        summary=_summary(rows, curves, memories),
        assumptions=_assumptions(base, cases),
        reading=tuple(_reading(rows, curves, memories)),
        figures=_figures(curves),
        shown=("model", "view", "memory", "units", "bandwidth", "ttft_s", "tpot_s", "latency_s", "bound_level"),
    )


def _cases(base: Mapping[str, Any]) -> tuple[Case, ...]:
    """The study's two models, or the one that is set; on devices that are set, or the fewest that hold it."""
    model, stated = base.get("model"), base["plan"].get("tensor_parallel")
    if model is None or stated is not None:
        models = [(case.model, case.devices) for case in CASES] if model is None else [(model, 1)]
        return tuple(Case(model=one, devices=count if stated is None else stated) for one, count in models)
    problems: list[InputError] = []
    for count in COUNTS:
        case = Case(model=model, devices=count)
        try:
            fits = bool(predict(_scenario(base, case, "calibrated")).fits)
        except InputError as error:
            problems.append(error)
            continue
        if fits:
            return (case,)
    if problems:
        raise problems[0]
    raise InputError(f"model {name_of(model)} does not fit on a node of {COUNTS[-1]} {DEVICE}")


def _assumptions(base: Mapping[str, Any], cases: Sequence[Case]) -> tuple[str, ...]:
    work = base["workload"]
    on = " and ".join(f"{case.name} on {case.devices}" for case in cases)
    return (
        said_of("ideal", "L2 limits its traffic"),
        said_of("calibrated", "here on an A100, in the engine of plan.framework"),
        f"Only the memory of an A100 is replaced, by {STACKS} HBM stacks or {CHIPS} GDDR chips at product rates.",
        "Without a product, the announced rate is used; synthesized devices use less of HBM4.",
        "The L2 bandwidth of A100, 4.8 TB/s, is an estimate; it determines the knee in the ideal view.",
        (
            f"Concurrent requests: {work['batch']:,}, each with {work['prompt_tokens']:,} prompt and "
            f"{work['output_tokens']:,} output tokens; {on} of these devices, connected by NVLink 3."
        ),
        "A knee is where the elasticity of latency to another level exceeds that to memory bandwidth.",
    )


def _scenario(base: Mapping[str, Any], case: Case, view: View) -> GenerationScenario:
    plan = {**base.get("plan", {}), "tensor_parallel": case.devices}
    cluster = f"{case.devices}x {DEVICE}"
    return generation_from_mapping(in_view({**base, "model": case.model, "cluster": cluster, "plan": plan}, view))


def _units(of: Memory) -> int:
    return CHIPS if of.family == "gddr" else STACKS


def _bandwidth(of: Memory) -> float:
    """Bytes per second at the rate that products run or makers announce.

    The law of technology must not look at products after A100, and takes a share of the fastest announced rate
    instead: 12.1 TB/s of HBM4, and 13.7 TB/s here.
    """
    return float(of.bandwidth) * _units(of)


def _rows(scenario: GenerationScenario, case: Case, view: View, memories: Sequence[Memory]) -> Iterator[dict[str, Any]]:
    """A row for each memory."""
    bandwidth = np.array([_bandwidth(one) for one in memories])
    capacity = np.array([float(one.capacity_bytes) * _units(one) for one in memories])
    profile = predict(with_numbers(scenario, memory_bandwidth=bandwidth, memory_bytes=capacity))
    columns = {
        "bandwidth": bandwidth,
        "memory_bytes": capacity,
        **{name: getattr(profile, name) for name in ("ttft_s", "tpot_s", "latency_s")},
        **{f"{level}_s": seconds for level, seconds in profile.levels.items()},
        "bound_level": profile.bound_level,
        "fits": profile.fits,
    }
    each = {name: np.broadcast_to(values, len(memories)).tolist() for name, values in columns.items()}
    for place, one in enumerate(memories):
        about = {"model": case.name, "devices": case.devices, "view": view, "memory": one.name, "units": _units(one)}
        yield about | {name: values[place] for name, values in each.items()}


def _curve(scenario: GenerationScenario, case: Case, view: View, bandwidth: Floats) -> Curve:
    fast_l2 = with_numbers(scenario, l2_bandwidth=scenario.cluster.device.l2_bandwidth * 1e3)
    latency_s = np.asarray(predict(with_numbers(scenario, memory_bandwidth=bandwidth)).latency_s)
    return Curve(
        case=case,
        view=view,
        bandwidth=bandwidth,
        latency_s=latency_s,
        knee=knee_of(scenario, bandwidth),
        next_knee=knee_of(fast_l2, bandwidth),
        most=most_along(scenario, bandwidth),
    )


def _summary(rows: Sequence[Mapping[str, Any]], curves: Sequence[Curve], memories: Sequence[Memory]) -> dict[str, Any]:
    """The knees, and how much latency falls from the slowest memory to the knee and from there to the fastest."""
    found: dict[str, Any] = {"knee": {}, "knee_if_l2_kept_up": {}, "gain_to_knee": {}, "gain_beyond_knee": {}}
    for curve in curves:
        latencies = [row["latency_s"] for row in _of(rows, curve)]
        at_knee = _at_knee(curve)
        values = {
            "knee": _described(curve.knee, memories),
            "knee_if_l2_kept_up": _described(curve.next_knee, memories),
            "gain_to_knee": max(latencies) / at_knee,
            "gain_beyond_knee": at_knee / min(latencies),
        }
        for name, value in values.items():
            found[name].setdefault(curve.view, {})[curve.case.name] = value
    return found


def _of(rows: Sequence[Mapping[str, Any]], curve: Curve) -> list[Mapping[str, Any]]:
    return [row for row in rows if (row["model"], row["view"]) == (curve.case.name, curve.view)]


def _at_knee(curve: Curve) -> float:
    """The latency at the knee; without one at the end of the curve."""
    bandwidth = curve.bandwidth[-1] if curve.knee is None else curve.knee.position
    return float(np.interp(bandwidth, curve.bandwidth, curve.latency_s))


def _described(knee: Knee | None, memories: Sequence[Memory]) -> dict[str, Any] | None:
    """A knee with the memories between which it lies."""
    if knee is None:
        return None
    by_bandwidth = sorted(memories, key=_bandwidth)
    below = [one.name for one in by_bandwidth if _bandwidth(one) < knee.position]
    beyond = [one.name for one in by_bandwidth if _bandwidth(one) >= knee.position]
    return {
        "level": knee.after,
        "bandwidth": knee.position,
        "last_memory_before": below[-1] if below else None,
        "first_memory_beyond": beyond[0] if beyond else None,
    }


def _reading(rows: Sequence[Mapping[str, Any]], curves: Sequence[Curve], memories: Sequence[Memory]) -> Iterator[str]:
    """A sentence for each curve."""
    for curve in curves:
        mine = sorted(_of(rows, curve), key=lambda row: row["bandwidth"])
        slowest, fastest = (
            f"{row['latency_s']:.2f} s with {row['memory']} ({row['bandwidth'] / 1e12:.1f} TB/s)"
            for row in (mine[0], mine[-1])
        )
        where = f"{curve.case.name} on {curve.case.devices} x {DEVICE}, {curve.view} view"
        knee = _described(curve.knee, memories)
        if knee is None:
            yield f"{where}: latency falls from {slowest} to {fastest}; {_throughout(curve)}."
            continue
        between = f"between {knee['last_memory_before']} and {knee['first_memory_beyond']}"
        yield (
            f"{where}: latency falls from {slowest} to {_at_knee(curve):.2f} s at the knee, "
            f"{knee['bandwidth'] / 1e12:.1f} TB/s ({between}), beyond which {WORDS[knee['level']]} "
            f"matter more than memory, and to {fastest}{_beyond(curve)}."
        )


def _throughout(curve: Curve) -> str:
    """What binds where nothing takes over from the memory."""
    if tuple(curve.most) == ("dram",):
        return "memory is the bottleneck throughout"
    ranked = ", then ".join(WORDS[level] for level in curve.most)
    return f"there is no knee where memory stops being the main factor: the order is {ranked}"


def _beyond(curve: Curve) -> str:
    """What would bind if L2 kept up with the memory, where L2 is what binds."""
    if curve.knee is None or curve.knee.after != "l2":
        return ""
    if curve.next_knee is None:
        return (
            f"; with a fast enough L2, memory is the bottleneck up to {curve.bandwidth[-1] / 1e12:.0f} TB/s and beyond"
        )
    following = curve.next_knee
    return f"; with a fast enough L2, {WORDS[following.after]} matter more from {following.position / 1e12:.1f} TB/s on"


def _figures(curves: Sequence[Curve]) -> tuple[Figure, ...]:
    """Latency over bandwidth, and what it is made of by memory, a figure for each view."""
    count = [len(curve.bandwidth) for curve in curves]
    lines = {
        "bandwidth": np.concatenate([curve.bandwidth for curve in curves]),
        "latency_s": np.concatenate([curve.latency_s for curve in curves]),
        "model": np.repeat([curve.case.name for curve in curves], count),
        "view": np.repeat([curve.view for curve in curves], count),
    }
    stacks = (
        Figure(
            kind="stacks",
            title=f"Latency by bottleneck, {view} view",
            x="memory",
            y=SECONDS,
            panel="model",
            where={"view": view},
        )
        for view in dict.fromkeys(curve.view for curve in curves)
    )
    over_bandwidth = Figure(
        kind="lines",
        title="Latency by memory bandwidth",
        x="bandwidth",
        y="latency_s",
        series="view",
        panel="model",
        log=frozenset({"x", "y"}),
        columns=lines,
    )
    return over_bandwidth, *stacks
