"""What limits the time of a prediction: seconds by limit, and what the whole would take if each limit held alone."""

from collections.abc import Iterable, Mapping
from typing import Any

from sightline.explanation.answer import Limit
from sightline.profile import COMMUNICATION, IDLE_PHASES, Profile, Row, seconds_by_limit
from sightline.profile.metrics import BOUNDS
from sightline.scenario.precision import MATMUL_FORMATS, MODEL_DTYPE, WEIGHT_FORMATS, rate_dtype

BUBBLE, HOST = "pipeline_bubble", "host"


def limits_of(profile: Profile) -> list[Limit]:
    """Return what limits the seconds of a prediction, largest first; those without any seconds are left out.

    Seconds of all limits sum to ``profile.whole_s``.
    """
    whole = float(profile.whole_s)
    seconds = {name: float(value) for name, value in _seconds(profile).items() if float(value) > 0}
    alone = alone_s(profile)
    found = [
        Limit(limit=name, time_s=value, share=value / whole if whole else 0.0, alone_s=alone.get(name))
        for name, value in seconds.items()
    ]
    return sorted(found, key=lambda one: -one.time_s)


def _seconds(profile: Profile) -> Mapping[str, Any]:
    """Seconds by limit; of a single operator, whose legs overlap, all of them under what binds it."""
    if profile.limits:
        return seconds_by_limit(profile)
    bound = str(profile.bottleneck or "")
    return {bound: profile.whole_s} if bound in BOUNDS else {}


def alone_s(profile: Profile) -> dict[str, float]:
    """Return seconds that the whole would take if only one limit held, for limits of which that is known.

    compute: the FLOPs of one device at its peak. memory: its bytes at the full bandwidth. network: the bytes that it
    sends at the full bandwidth of the links. No operator takes longer alone than it is predicted to take: of causal
    attention half of the counted FLOPs are never computed, and bytes may come from a cache. Left out: the latency of
    memory and links, what the host needs for launches that the device does not wait for, and loads of many requests,
    whose iterations have no rows.
    """
    cluster = profile.scenario.cluster
    if cluster.groups:
        return {}
    if profile.task.name == "operator":
        return _of_operator(profile)
    rows = [row for row in profile.rows if row.phase not in IDLE_PHASES]
    if not rows:
        return {}
    peak, bandwidth = max(peaks_of(profile).values()), float(cluster.device.memory_bandwidth)
    found = {
        "compute": _least((row, float(row.flops) / peak) for row in rows),
        "memory": _least((row, float(row.bytes) / bandwidth) for row in rows),
        "network": _least((row, _on_links_s(row, profile)) for row in rows),
    }
    return {name: min(seconds, float(profile.whole_s)) for name, seconds in found.items() if seconds > 0}


def _least(rows: Iterable[tuple[Row, float]]) -> float:
    return sum(min(seconds, float(row.time_s)) for row, seconds in rows)


def _of_operator(profile: Profile) -> dict[str, float]:
    cluster, work, whole = profile.scenario.cluster, profile.scenario.workload, float(profile.whole_s)
    if profile.bottleneck == "network":
        return {}
    found = {"memory": float(profile.bytes) / float(cluster.device.memory_bandwidth)}
    peak = cluster.device.peak_flops.get(rate_dtype(str(getattr(work, "dtype", "bf16"))))
    if peak is not None and float(profile.flops) > 0 and getattr(work, "operator", "") in ("matmul", "attention"):
        found["compute"] = float(profile.flops) / float(peak)
    return {name: min(seconds, whole) for name, seconds in found.items() if seconds > 0}


def peaks_of(profile: Profile) -> dict[str, float]:
    """Return the peaks of a device by the types that a plan's products compute in; all of them where it has none."""
    plan, rates = profile.scenario.plan, profile.scenario.cluster.device.peak_flops
    words = plan.quantization if isinstance(plan.quantization, tuple) else ()
    kinds = [MATMUL_FORMATS[WEIGHT_FORMATS[word]].compute_dtype for word in words if word in WEIGHT_FORMATS]
    names = [rate_dtype(plan.dtype), *(kind for kind in kinds if kind != MODEL_DTYPE)]
    return {name: float(rates[name]) for name in ([one for one in names if one in rates] or rates)}


def _on_links_s(row: Row, profile: Profile) -> float:
    """Seconds of a row's bytes at the full bandwidth of its links: of the node, or of the network between nodes.

    Ranks of tensor, context and expert parallelism are taken to be neighbours. A group with ``g`` ranks in a node sends
    its bytes over the node's ports once, next to the other groups of the node: ``bytes (n / g) / bandwidth``.
    """
    sent = float(row.network_bytes)
    if sent <= 0:
        return 0.0
    cluster, plan = profile.scenario.cluster, profile.scenario.plan
    inside = sent / float(cluster.intra_node.bandwidth)
    width = float(plan.tensor_parallel) * float(getattr(plan, "context_parallel", 1))
    if cluster.devices <= cluster.per_node or (row.block not in ("step", "batch") and width <= cluster.per_node):
        return inside
    groups = min(float(plan.tensor_parallel), float(cluster.per_node))
    return max(inside, sent * groups / float(cluster.network.bandwidth_per_node))


def exposed_communication_s(profile: Profile) -> float:
    """Return seconds of communication that no computation hides."""
    return sum(float(profile.phases.get(name, 0.0)) for name in COMMUNICATION)
