"""What bounds each matmul of a layer, by device and memory level (arXiv 2407.14645, section 5).

A matmul is compute-bound where its FLOPs per byte of memory traffic exceed the device's ridge point, its peak over its
bandwidth. A device with a higher ridge point has more matmuls that its memory bounds, however fast both are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.errors import InputError
from sightline.exploration.base import StudyRequest, base_of
from sightline.exploration.study_answer import BOUND_BY, Column, Figure, StudyAnswer, columns_of
from sightline.loading import generation_from_mapping
from sightline.loading.checks import with_value
from sightline.prediction.roofline_table import Phase, roofline_table
from sightline.quantities import percent

BASE: Mapping[str, Any] = {
    "model": "llama-2-13b",
    "workload": {"task": "generate", "batch": 1, "prompt_tokens": 512, "output_tokens": 512},
    "plan": {"framework": "reference", "dtype": "fp16"},
}
VARIED = ("cluster", "workload.task", "workload.batch", "workload.prompt_tokens")
A100, H100 = "a100-sxm-80gb", "h100-sxm-80gb"
DEVICES = ("v100-sxm2-32gb", A100, "h200-sxm-141gb", "mi300x", "b200-sxm-180gb", H100)
QUICK_DEVICES = (A100, H100)
LONG_PROMPT = 512
"""Tokens from which a prompt counts as long: its prefill is expected to be compute-bound."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The pass whose matmuls are looked at."""

    phase: Phase
    batch: int = 1
    prompt_tokens: int = LONG_PROMPT

    @property
    def name(self) -> str:
        """What it is in words."""
        return f"prefill, {self.prompt_tokens} tokens" if self.phase == "prefill" else f"decode, batch {self.batch}"


LOADS = (
    *(Load(phase="prefill", prompt_tokens=tokens) for tokens in (128, 200, LONG_PROMPT, 2048)),
    *(Load(phase="decode", batch=batch) for batch in (1, 16, 64, 256)),
)
QUICK_LOADS = (LOADS[1], LOADS[2], LOADS[4], LOADS[-1])
ASSUMPTIONS = (
    "Ideal view (bound_level, roofline_s): the slowest of arithmetic, compulsory memory traffic and L2 traffic.",
    "Calibrated view (calibrated_s): the time of kernels measured on the device, or on related devices.",
    "Attention is two matmuls, scores and context, as in the source; engines fuse them and keep scores on the chip.",
    "One device holds the whole matrices of a layer, whether or not all layers fit in its memory.",
    f"Decode is at the middle of the output, after a prompt of {LONG_PROMPT} tokens.",
)
ABOUT: Mapping[str, Column] = {
    "flops": Column(label="FLOPs", unit="FLOP"),
    "bytes": Column(label="bytes", unit="B"),
    "intensity": Column(label="FLOPs per byte"),
    "ridge": Column(label="ridge point"),
    "bound": Column(label="limited by"),
    "bound_level": BOUND_BY,
    "roofline_s": Column(label="roofline", unit="s"),
    "roofline_flops_per_s": Column(label="FLOP/s at the roofline", unit="FLOP/s"),
    "l2_s": Column(label="across L2", unit="s"),
    "calibrated_s": Column(label="calibrated", unit="s"),
    "share": Column(label="share of matmuls", unit="share"),
}
BY_RIDGE = {"device": "device, by ridge point"}
"""Devices stand in this order."""


def study(request: StudyRequest) -> StudyAnswer:
    """Return the matmuls of each load on each device, and what bounds them."""
    base = base_of(BASE, request, VARIED)
    loads, names = (QUICK_LOADS, QUICK_DEVICES) if request.quick else (LOADS, DEVICES)
    devices, warnings = _usable(base, names)
    rows = [row for load in loads for device in devices for row in _rows(base, load, device)]
    summary = _summary(rows, devices)
    return StudyAnswer(
        study="bound-by",
        title="Bottleneck of each matmul of a layer, by device and memory level",
        axes={"cluster.device": devices, "load": [load.name for load in loads]},
        columns=columns_of(rows),
        about=ABOUT,
        summary=summary,
        assumptions=ASSUMPTIONS,
        reading=_reading(summary),
        figures=_figures(rows, summary),
        warnings=[*warnings, *_of_view(request)],
        shown=("load", "device", "matmul", "intensity", "ridge", "bound_level", "roofline_s", "calibrated_s"),
    )


def _of_view(request: StudyRequest) -> list[str]:
    """What a request for one view is told."""
    if request.view in (None, "both"):
        return []
    return [f"view {request.view} has no effect: each row has the ideal roofline_s and the calibrated calibrated_s"]


def _on(base: Mapping[str, Any], device: str) -> dict[str, Any]:
    return {**base, "cluster": f"1x {device}"}


def _usable(base: Mapping[str, Any], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The devices that can run the scenario, and a sentence for each that cannot; an error where none can."""
    usable, problems = [], []
    for name in names:
        try:
            generation_from_mapping(_on(base, name))
            usable.append(name)
        except InputError as error:
            problems.append((name, error))
    if not usable:
        raise problems[0][1]
    return usable, [f"skipped {name}: {error.problems[0]}" for name, error in problems]


def _rows(base: Mapping[str, Any], load: Load, device: str) -> Iterator[Row]:
    """The matmuls of a load on a device."""
    mapping = with_value(_on(base, device), "workload.batch", load.batch)
    scenario = generation_from_mapping(with_value(mapping, "workload.prompt_tokens", load.prompt_tokens))
    for row in roofline_table(scenario).rows:
        if row.phase == load.phase:
            yield {"load": load.name, "phase": load.phase, "prompt_tokens": load.prompt_tokens, "device": device} | {
                "batch": load.batch,
                "layer": row.layer,
                "matmul": row.matmul,
                **{name: getattr(row, name) for name in ("m", "n", "k", "flops", "bytes", "intensity", "ridge")},
                "bound": row.bound,
                "bound_level": row.bound_level,
                "roofline_s": row.least_s,
                "roofline_flops_per_s": row.flops / row.least_s,
                "l2_s": row.l2_s,
                "calibrated_s": row.predicted_s,
            }


def _summary(rows: Sequence[Row], devices: Sequence[str]) -> dict[str, Any]:
    """Ridge points, shares of matmuls that memory bounds, and where A100 and H100 differ."""
    long = [row for row in rows if row["phase"] == "prefill" and row["prompt_tokens"] >= LONG_PROMPT]
    single = [row for row in rows if row["phase"] == "decode" and row["batch"] == 1]
    of = {device: [row for row in rows if row["device"] == device] for device in devices}
    return {
        "ridge_flops_per_byte": {device: of[device][0]["ridge"] for device in devices},
        "memory_bound_share": {device: _memory_share(of[device]) for device in devices},
        "prefill_compute_bound_share": _by_device(long, devices, lambda x: 1.0 - _memory_share(x)),
        "prefill_compute_bound_share_of_flops": _by_device(long, devices, _compute_share_of_flops),
        "decode_memory_bound_share": _by_device(single, devices, _memory_share),
        "l2_over_bound": {device: max(row["l2_s"] / row["roofline_s"] for row in of[device]) for device in devices},
        "memory_bound_on_h100_only": _differences(of, H100, A100),
        "memory_bound_on_a100_only": _differences(of, A100, H100),
    }


def _figures(rows: Sequence[Row], summary: Mapping[str, Any]) -> tuple[Figure, ...]:
    """What bounds matmuls under the loads for which devices differ, the roofline, and what memory bounds."""
    share = summary["memory_bound_share"]
    differing = _differing(rows)
    loads = {"load": differing} if differing else {}
    return (
        Figure(
            kind="map",
            title=f"Bottleneck of each matmul{', where devices differ' if differing else ''}",
            x="device",
            y="matmul",
            series="bound_level",
            panel="load",
            names=BY_RIDGE,
            where=loads,
        ),
        Figure(
            kind="points",
            title="Matmuls on the roofline",
            x="intensity",
            y="roofline_flops_per_s",
            series="device",
            log=frozenset({"x", "y"}),
        ),
        Figure(
            kind="bars",
            title="Share of memory-bound matmuls",
            x="device",
            y="share",
            names=BY_RIDGE,
            columns={"device": list(share), "share": list(share.values())},
        ),
    )


def _differing(rows: Sequence[Row]) -> tuple[str, ...]:
    """The loads under which a matmul is bound by another level on another device."""
    levels: dict[tuple[str, str, str], set[str]] = {}
    for row in rows:
        levels.setdefault((row["load"], row["layer"], row["matmul"]), set()).add(row["bound_level"])
    return tuple(dict.fromkeys(load for (load, *_), several in levels.items() if len(several) > 1))


def _by_device(rows: Sequence[Row], devices: Sequence[str], share: Any) -> dict[str, float]:
    return {device: share([row for row in rows if row["device"] == device]) for device in devices}


def _memory_share(rows: Sequence[Row]) -> float:
    """Share of the matmuls that memory bounds, of any level."""
    memory_bound = [row for row in rows if row["bound_level"] != "compute"]
    return len(memory_bound) / len(rows)


def _compute_share_of_flops(rows: Sequence[Row]) -> float:
    bound = sum(row["flops"] for row in rows if row["bound_level"] == "compute")
    return float(bound / sum(row["flops"] for row in rows))


def _differences(of: Mapping[str, Sequence[Row]], one: str, other: str) -> list[str]:
    """Matmuls that memory bounds on one device and arithmetic on the other."""
    pairs = zip(of.get(one, ()), of.get(other, ()), strict=False)
    return [
        f"{a['matmul']} ({a['load']})"
        for a, b in pairs
        if a["bound_level"] != "compute" and b["bound_level"] == "compute"
    ]


def _reading(summary: Mapping[str, Any]) -> list[str]:
    """What the table shows, with its numbers."""
    ridge, share = summary["ridge_flops_per_byte"], summary["memory_bound_share"]
    ridges = ", ".join(f"{device} {value:.0f}" for device, value in ridge.items())
    sentences = [f"Ridge points in FLOPs per byte: {ridges}."]
    sentences += [_reading_of(summary, device) for device in (A100, H100) if device in share]
    if A100 in share and H100 in share:
        only = summary["memory_bound_on_h100_only"]
        more = f"memory-bound on the H100 only: {', '.join(only)}" if only else "none is memory-bound on the H100 only"
        sentences.append(
            f"{percent(share[A100])} of all matmuls are memory-bound on {A100}, and {percent(share[H100])} on "
            f"{H100}, whose ridge point is {ridge[H100] / ridge[A100]:.1f} times as high; {more}."
        )
    over = summary["l2_over_bound"]
    nearest = max(over, key=lambda device: over[device])
    sentences.append(f"L2 takes at most {percent(over[nearest])} of a matmul's time at the roofline, on {nearest}.")
    return sentences


def _reading_of(summary: Mapping[str, Any], device: str) -> str:
    """What bounds long prompts and single sequences on a device."""
    count = summary["prefill_compute_bound_share"][device]
    flops = summary["prefill_compute_bound_share_of_flops"][device]
    decode = summary["decode_memory_bound_share"][device]
    return (
        f"On {device}, {percent(count)} of the matmuls of prompts of {LONG_PROMPT} tokens or more are "
        f"compute-bound, with {percent(flops)} of their FLOPs; {percent(decode)} of the matmuls that decode one "
        "sequence are memory-bound."
    )
