"""Faults of a traced step that lie in communication: what nothing hides, and waits for other ranks and stages."""

from collections.abc import Iterator

from sightline.explanation.traced.fault import Fault, part
from sightline.explanation.traced.figures import Figures
from sightline.explanation.traced.sentences import slow_one
from sightline.prediction.changes import seconds
from sightline.traces.operator_names import UNNAMED

_IN_FORWARD = 0.25
"""Share of all-reduces inside of the forward pass from which on they are no longer gradients alone."""


def network(figures: Figures) -> Iterator[Fault]:
    """Yield what is lost to communication that nothing hides."""
    exposed = figures.communication_s
    by_kind = {row.operator: float(row.exposed_s) for row in figures.rows if row.phase == "communication"}
    if "send-recv" in by_kind:
        by_kind["send-recv"] -= figures.limits.get("bubble", 0.0) + figures.limits.get("transfers", 0.0)
    kind = max(by_kind, key=lambda name: by_kind[name], default="communication")
    # Nothing but the passes can hide it, and what they hide already they cannot hide twice.
    room = max(figures.phase_s("forward", "backward", "recompute") - figures.overlapped_s, 0.0)
    yield Fault(
        min(exposed, room),
        "Overlap communication with computation. "
        f"What nothing hides, mostly {'of unknown kind' if kind == UNNAMED else kind}, takes {part(figures, exposed)}: "
        f"{_how(figures, kind)}; at best all that the passes could hide is saved.{_slow(figures)}",
        {},
    )


def _how(figures: Figures, kind: str) -> str:
    """What helps against exposed collectives of a kind."""
    return {
        "all-reduce": _all_reduces(figures),
        "all-gather": "prefetch the next layer's weights (FSDP's forward and backward prefetch), or shard less",
        "reduce-scatter": "let it overlap with the backward pass, or accumulate more micro-batches per step",
        "all-to-all": "overlap the exchange (of experts, for instance) with computation, or keep it inside a node",
    }.get(kind, "overlap it with computation, or send less")


def _all_reduces(figures: Figures) -> str:
    if figures.reduced_in_forward > _IN_FORWARD:
        return (
            "many stand inside of the forward pass, as those of tensor parallelism do, and what follows needs their "
            "result: use fewer tensor-parallel ranks, keep them inside a node, or overlap by parts (asynchronous "
            "tensor parallelism, two micro-batches in turn)"
        )
    if figures.has_buckets:
        return (
            "DistributedDataParallel sends buckets during the backward pass already: accumulate gradients of several "
            "micro-batches under no_sync(), send them in 16 bits (bf16_compress_hook), or try another bucket_cap_mb"
        )
    return (
        "start it in buckets during the backward pass (DistributedDataParallel does; bucket_cap_mb sets their size, "
        "gradient_as_bucket_view saves a copy)"
    )


def _slow(figures: Figures) -> str:
    """What is remarkable of a slow collective, and which traces would tell more."""
    said = slow_one(figures)
    return f" {said}" if said else ""


def imbalance(figures: Figures) -> Iterator[Fault]:
    """Yield what ranks lose waiting for the slowest."""
    waits = figures.limits.get("imbalance", 0.0)
    slow = max(figures.ranks, key=lambda rank: rank.behind_s)
    others = [rank.compute_s for rank in figures.ranks if rank is not slow]
    usual = sum(others) / len(others) if others else slow.compute_s
    cause = (
        f"it computes {seconds(slow.compute_s)} where the others compute {seconds(usual)}: balance the batches "
        "(tokens per rank, not samples)"
        if slow.compute_s > 1.1 * usual
        else "it computes no longer than the others: look at its input and its host"
    )
    yield Fault(
        waits,
        "Balance the ranks. "
        f"They are uneven: on average a rank waits {part(figures, waits)} in collectives for rank {slow.rank}, which "
        f"comes last; {cause}, and check that its {'device' if figures.has_device else 'processor'} is not slower.",
        {},
    )


def bubble(figures: Figures) -> Iterator[Fault]:
    """Yield what stages of a pipeline lose waiting for each other."""
    waits = figures.limits.get("bubble", 0.0)
    yield Fault(
        0.5 * waits,
        "Shrink the pipeline bubble. "
        f"Stages wait {part(figures, waits)} for each other: twice as many micro-batches, or an interleaved "
        "schedule, would halve that.",
        {},
    )


def transfers(figures: Figures) -> Iterator[Fault]:
    """Yield what is lost in slow sends and receives of which the trace does not say what they wait for."""
    waits = figures.limits.get("transfers", 0.0)
    look = (
        "explain the traces of all ranks together, those of the first and the last stage among them: sightline explain "
        "rank-*.json.gz"
        if len(figures.ranks) < figures.world_size or len(figures.ranks) == 1
        else "look at what the other rank does meanwhile, in its trace alone"
    )
    yield Fault(
        waits,
        "Find out what sends and receives wait for. "
        f"Those that take longer than the fastest of their kind and size add {part(figures, waits)}. The trace does "
        "not tell whether they wait for the other rank (another pipeline stage, or a neighbor in a ring) or for the "
        f"link: {look}; at best all of it is saved.",
        {},
    )
