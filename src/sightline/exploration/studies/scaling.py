"""Strong and weak scaling of training to more than 100,000 devices, by network.

With a fixed batch more devices wait for each other. A batch that grows keeps them busy, but beyond the critical batch
(arXiv 1812.06162) a step teaches hardly more: with batches of B tokens training needs 1 + B / B_crit times the tokens.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sightline.errors import InputError
from sightline.exploration.base import Restricted, StudyRequest, base_of, fastest, in_view, name_of, said_of
from sightline.exploration.study_answer import Column, Figure, StudyAnswer, View, columns_of, result_columns
from sightline.exploration.training_budget import LAWS
from sightline.profile import TRAINING, Profile
from sightline.quantities import percent

Mode = Literal["strong", "weak"]
MODES: tuple[Mode, ...] = ("strong", "weak")
DEVICE = "h100-sxm-80gb"
NDR, GDR = NETWORKS = ("infiniband-ndr", "infiniband-gdr")
COUNTS = tuple(1024 * 2**power for power in range(8))
QUICK_COUNTS = (1024, 16384, 131072)
BASE: Mapping[str, Any] = {
    "model": "llama-3.1-405b",
    "workload": {"task": "pretrain", "sequence_length": 8192, "global_batch": 2048, "total_tokens": 15.6e12},
    "plan": {"framework": "megatron", "dtype": "bf16"},
}
"""Batch and tokens about as arXiv 2407.21783 states them for 16,384 H100s."""
SAME_BATCH_DEVICES = 16384
"""Devices on which both kinds of scaling have the same batch."""
SEARCHED: Restricted = {
    **dict.fromkeys(("pipeline_parallel", "virtual_stages", "micro_batch")),
    "tensor_parallel": (4, 8, 16),
    "context_parallel": (1, 2, 4),
    "sequence_parallel": (True,),
    "schedule": ("1f1b", "interleaved"),
    "zero_stage": (1, 2, 3),
    "recompute": ("none", "selective", "full"),
}
VARIED = ("cluster", "workload.task", *(f"plan.{key}" for key in SEARCHED), "plan.data_parallel")
CRITICAL_SCALE, CRITICAL_EXPONENT = 2e8, 0.21
"""Kaplan 2020 (arXiv 2001.08361), equation 1.4: B_crit = 2e8 tokens / L^(1 / 0.21), L the loss in nats per token."""
LAW = LAWS["chinchilla-2024"]
"""What the loss at the end is taken from."""
ABOUT: Mapping[str, Column] = {
    **result_columns(TRAINING),
    "mode": Column(label="scaling"),
    "network": Column(label="network", values={NDR: "InfiniBand NDR", GDR: "InfiniBand GDR"}),
    "curve": Column(label="curve"),
    "batch_tokens": Column(label="batch", unit="tokens"),
    "efficiency": Column(label="efficiency", unit="share"),
    "bottleneck": Column(label="limited by"),
    "useful_share": Column(label="useful tokens", unit="share"),
    "useful_tokens_per_s": Column(label="useful tokens/s", unit="tokens/s"),
}
SHOWN = ("view", "mode", "devices", "tokens_per_s", "efficiency", "mfu", "exposed_share", "bubble_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What is scaled: each curve has a point for each number of devices."""

    view: View
    mode: Mode
    network: str

    def batch(self, devices: int, largest: int) -> int:
        """Return the sequences of a step; ``largest`` is that of strong scaling."""
        return largest if self.mode == "strong" else largest * devices // SAME_BATCH_DEVICES

    @property
    def words(self) -> str:
        """What it is, as a sentence begins with it."""
        return f"{self.view.capitalize()} view, {self.mode} scaling"


def study(request: StudyRequest) -> StudyAnswer:
    """Return the speed of training and what it loses, by number of devices."""
    base = _checked(base_of(BASE, request, VARIED))
    counts = QUICK_COUNTS if request.quick else COUNTS
    views = request.views("both")
    networks = (NDR,) if request.quick else NETWORKS
    curves = [Curve(view=view, mode=mode, network=network) for view in views for mode in MODES for network in networks]
    request.progress.begin(len(curves) * len(counts), "searching plans")
    known: dict[Any, Profile] = {}
    rows = [row for curve in curves for row in _rows(base, curve, counts, known, request)]
    critical = _critical_tokens(next(iter(known.values())))
    summary = _summary(rows, curves, critical)
    return StudyAnswer(
        study="scaling",
        title=f"Scaling of training to {counts[-1]:,} devices",
        axes={"devices": list(counts), "mode": list(MODES), "cluster.network": list(networks)},
        columns=columns_of(rows),
        about=ABOUT,
        summary=summary,
        assumptions=_assumptions(views, base, critical),
        reading=tuple(_reading(rows, curves, critical)),
        figures=_figures(views),
        shown=SHOWN if request.quick else (*SHOWN[:2], "network", *SHOWN[2:]),
    )


def _checked(base: dict[str, Any]) -> dict[str, Any]:
    """Return the base scenario if it states its tokens and a batch that weak scaling can split."""
    batch, tokens = (base["workload"][key] for key in ("global_batch", "total_tokens"))
    smallest = SAME_BATCH_DEVICES // COUNTS[0]
    if not isinstance(batch, int) or batch < smallest or batch % smallest:
        raise InputError(f"workload.global_batch of scaling must be a multiple of {smallest}, such as 2048")
    if not isinstance(tokens, int | float):
        raise InputError("workload.total_tokens of scaling must be a number of tokens, such as 15.6e12")
    return base


def _rows(
    base: Mapping[str, Any], curve: Curve, counts: Sequence[int], known: dict[Any, Profile], request: StudyRequest
) -> Iterator[dict[str, Any]]:
    """Yield the points of a curve; both modes share the plan of a batch that they have in common."""
    first = 0.0
    for devices in counts:
        batch = curve.batch(devices, base["workload"]["global_batch"])
        key = (curve.view, curve.network, devices, batch)
        if key not in known:
            known[key] = fastest(_scenario(base, curve, devices, batch), SEARCHED, request.progress)
        request.progress.advance()
        profile = known[key]
        each = float(profile.tokens_per_s_per_device)
        first = first or each
        yield _row(curve, profile, each / first)


def _scenario(base: Mapping[str, Any], curve: Curve, devices: int, batch: int) -> dict[str, Any]:
    cluster = {"devices": f"{devices}x {DEVICE}", "network": curve.network}
    return in_view({**base, "cluster": cluster, "workload": {**base["workload"], "global_batch": batch}}, curve.view)


def _row(curve: Curve, profile: Profile, efficiency: float) -> dict[str, Any]:
    plan, work = profile.scenario.plan, profile.scenario.workload
    degrees = ("tensor_parallel", "pipeline_parallel", "context_parallel", "data_parallel", "virtual_stages")
    useful = 1.0 / (1.0 + work.tokens_per_step / _critical_tokens(profile))
    return {
        "view": curve.view,
        "mode": curve.mode,
        "network": curve.network,
        "curve": curve.words,
        "devices": profile.scenario.cluster.devices,
        "global_batch": work.global_batch,
        "batch_tokens": float(work.tokens_per_step),
        "step_time_s": float(profile.step_time_s),
        "tokens_per_s": float(profile.tokens_per_s),
        "efficiency": efficiency,
        "mfu": float(profile.mfu),
        "exposed_share": float(profile.phases["communication_exposed"] / profile.step_time_s),
        "bubble_share": float(profile.phases["pipeline_bubble"] / profile.step_time_s),
        "bottleneck": str(profile.bottleneck),
        "useful_share": useful,
        "useful_tokens_per_s": useful * float(profile.tokens_per_s),
        "run_time_s": float(profile.run_time_s),
        **{key: int(getattr(plan, key)) for key in (*degrees, "micro_batch", "zero_stage")},
        "recompute": plan.recompute,
        "fits": bool(profile.fits),
    }


def _critical_tokens(profile: Profile) -> float:
    """The batch beyond which larger ones teach hardly more, at the loss that training ends with."""
    loss = LAW.loss(float(profile.scenario.model.parameters), float(profile.scenario.workload.total_tokens))
    critical: float = CRITICAL_SCALE / float(loss) ** (1.0 / CRITICAL_EXPONENT)
    return critical


def _summary(rows: Sequence[Mapping[str, Any]], curves: Sequence[Curve], critical: float) -> dict[str, Any]:
    """Each curve's end, and the most devices on which it keeps half of its efficiency."""
    found = []
    for curve in curves:
        points = _points(rows, curve)
        last = points[-1]
        found.append(
            {
                "view": curve.view,
                "mode": curve.mode,
                "network": curve.network,
                "devices": last["devices"],
                "efficient_to": _efficient_to(points),
                **{key: last[key] for key in ("tokens_per_s", "efficiency", "mfu", "exposed_share", "bubble_share")},
                "useful_tokens_per_s": last["useful_tokens_per_s"],
            }
        )
    return {"critical_batch_tokens": critical, "curves": found}


def _points(rows: Sequence[Mapping[str, Any]], curve: Curve) -> list[Mapping[str, Any]]:
    asked = (curve.view, curve.mode, curve.network)
    return [row for row in rows if (row["view"], row["mode"], row["network"]) == asked]


def _assumptions(views: Sequence[View], base: Mapping[str, Any], critical: float) -> tuple[str, ...]:
    more: Mapping[View, str] = {
        "ideal": "tensor-parallel communication is overlapped",
        "calibrated": "training uses Megatron-LM",
    }
    work = base["workload"]
    return (
        *(said_of(view, more[view]) for view in views),
        (
            f"{name_of(base['model'])} on {DEVICE}; strong scaling uses {work['global_batch']:,} sequences of "
            f"{work['sequence_length']:,} tokens per step, weak scaling the same on {SAME_BATCH_DEVICES:,} "
            "devices."
        ),
        "The plan is searched again for each device count, batch and network; nothing is offloaded.",
        f"Efficiency is tokens/s per device relative to {COUNTS[0]:,} devices on the same curve.",
        (
            f"The critical batch is {critical / 1e6:.1f}M tokens: arXiv 2001.08361, equation 1.4, at the loss that "
            f"{LAW.source} gives; it is an estimate."
        ),
        "Useful tokens are those that training with small batches would need: tokens / (1 + B / B_crit).",
        "No device fails, and no other job shares the network.",
    )


def _reading(rows: Sequence[Mapping[str, Any]], curves: Sequence[Curve], critical: float) -> Iterator[str]:
    for curve in curves:
        if curve.network == NDR:
            yield _of_curve(curve, _points(rows, curve))
    for curve in curves:
        if curve.network == GDR:
            slow = replace(curve, network=NDR)
            yield _of_networks(curve, _points(rows, slow), _points(rows, curve))
    yield from _of_batches([row for row in rows if (row["view"], row["network"]) == (rows[0]["view"], NDR)], critical)


def _of_curve(curve: Curve, points: Sequence[Mapping[str, Any]]) -> str:
    last = points[-1]
    return (
        f"{curve.words}: {last['devices']:,} devices train {last['tokens_per_s'] / 1e6:.1f}M tokens/s at "
        f"{percent(last['efficiency'])} efficiency and {percent(last['mfu'])} MFU; "
        f"{percent(last['exposed_share'])} of the time is exposed communication, {percent(last['bubble_share'])} "
        f"pipeline bubbles; efficiency is at least half up to {_efficient_to(points):,} devices."
    )


def _of_networks(curve: Curve, slow: Sequence[Mapping[str, Any]], fast: Sequence[Mapping[str, Any]]) -> str:
    gains = {
        one["devices"]: 100 * (other["tokens_per_s"] / one["tokens_per_s"] - 1)
        for one, other in zip(slow, fast, strict=True)
    }
    last, most = max(gains), max(gains, key=lambda devices: gains[devices])
    return (
        f"{curve.words}: four times the network bandwidth makes {last:,} devices {gains[last]:.0f} % faster, and "
        f"at most {most:,} devices {gains[most]:.0f} % faster."
    )


def _efficient_to(points: Sequence[Mapping[str, Any]]) -> int:
    """The most devices on which half of the efficiency is kept."""
    return int(max(row["devices"] for row in points if row["efficiency"] >= 0.5))


def _of_batches(rows: Sequence[Mapping[str, Any]], critical: float) -> Iterator[str]:
    """Yield sentences on what batches are worth."""
    strong, weak = ([row for row in rows if row["mode"] == mode] for mode in MODES)
    reached = [row["devices"] for row in weak if row["batch_tokens"] <= critical]
    to = f"to {reached[-1]:,} devices" if reached else "nowhere"
    last = weak[-1]
    useful = 100 * last["useful_share"]
    yield (
        f"Weak scaling stays below the critical batch of {critical / 1e6:.1f}M tokens {to}; on "
        f"{last['devices']:,} devices a step has {_tokens(last['batch_tokens'])} tokens, of which {useful:.0f} % "
        "are useful."
    )
    best = max(rows, key=lambda row: row["useful_tokens_per_s"])
    first = weak[0]
    fixed = strong[0]["batch_tokens"]
    allowed = "cannot use more sequences either" if fixed >= critical else "could use more sequences"
    yield (
        f"Strong scaling {allowed}: its {_tokens(fixed)} tokens per step are {fixed / critical:.2g} times the "
        "critical batch."
    )
    yield (
        f"The most useful tokens/s come from {best['mode']} scaling on {best['devices']:,} devices, "
        f"{best['useful_tokens_per_s'] / first['useful_tokens_per_s']:.1f} times those of {first['devices']:,}."
    )


def _tokens(count: float) -> str:
    """A number of tokens in the largest unit of which there is a whole one."""
    return f"{count / 1e6:.0f}M" if count >= 1e6 else f"{count / 1e3:.0f}K" if count >= 1e3 else f"{count:.0f}"


def _figures(views: Sequence[View]) -> tuple[Figure, ...]:
    both = frozenset({"x", "y"})
    return (
        Figure(
            kind="lines",
            title="Efficiency by number of devices",
            x="devices",
            y="efficiency",
            series="network",
            panel="curve",
            log=frozenset({"x"}),
        ),
        Figure(
            kind="lines",
            title="Throughput, InfiniBand NDR",
            x="devices",
            y="tokens_per_s",
            series="mode",
            panel="view",
            log=both,
            where={"network": NDR},
        ),
        Figure(
            kind="lines",
            title="Useful throughput, InfiniBand NDR",
            x="devices",
            y="useful_tokens_per_s",
            series="mode",
            panel="view",
            log=both,
            where={"network": NDR},
        ),
        *(
            Figure(
                kind="stacks",
                title=f"Time lost, InfiniBand NDR, {view} view",
                x="devices",
                y=("exposed_share", "bubble_share"),
                panel="mode",
                names={"y": "share of the step"},
                where={"network": NDR, "view": view},
            )
            for view in views
        ),
    )
