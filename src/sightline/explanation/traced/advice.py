"""Faults of a traced step, ranked by the seconds that removing each would save."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from sightline.explanation.answer import Advice
from sightline.explanation.reasons import seconds
from sightline.explanation.traced.figures import Figures
from sightline.explanation.traced.products import lost
from sightline.explanation.traced.sentences import fills, slow_one
from sightline.traces.breakdown import Reason
from sightline.traces.operators.attention import CORE

if TYPE_CHECKING:
    from sightline.explanation.traced.model import Predicted

MOST = 3
"""Changes that are advised."""
_LEAST = 0.02
"""Share of the step that removing a fault has to save."""
_FUSED = ("scores and values", "matmul")
"""Operators of attention that a fused kernel has too; the rest handles scores in memory."""


class Fault(NamedTuple):
    """Something that a step need not spend."""

    gain_s: float
    sentence: str
    """The finding and what to do; what the step would take without it is added."""
    set: dict[str, object]
    command: str = ""


def advised(figures: Figures, predicted: "Predicted | None" = None) -> list[Advice]:
    """Return the changes that would help a traced step most: three at most, the best first."""
    faults = [fault for find in _FAULTS for fault in find(figures)]
    known = [fault.set for fault in faults if fault.gain_s >= _LEAST * figures.whole_s]
    faults += [fault for fault in predicted.faults(figures) if fault.set not in known] if predicted else []
    worth = [fault for fault in faults if fault.gain_s >= _LEAST * figures.whole_s]
    return [_advice(fault, figures) for fault in sorted(worth, key=lambda fault: -fault.gain_s)[:MOST]]


def _advice(fault: Fault, figures: Figures) -> Advice:
    left = seconds(max(figures.whole_s - fault.gain_s, 0.0))
    return Advice(
        set=fault.set,
        gain_s=fault.gain_s,
        gain=fault.gain_s / figures.whole_s,
        sentence=f"{fault.sentence} Without it the step would take about {left}.",
        command=fault.command,
    )


def _of(figures: Figures, part_s: float) -> str:
    return f"{seconds(part_s)} of {seconds(figures.whole_s)} ({100 * part_s / figures.whole_s:.0f} %)"


def _input(figures: Figures) -> Iterator[Fault]:
    waits = figures.limits.get("input", 0.0)
    late, pinned = "", ""
    if figures.late_for_input_s > 0.1 * waits:
        slow = max(figures.ranks, key=lambda rank: rank.behind_s)
        late = f" It is rank {slow.rank} that waits, and the others wait for it in collectives."
    if figures.pageable_s - figures.pageable_others_s > 0.1 * waits:
        pinned = " Batches are copied from pageable memory: pin_memory=True and non_blocking=True let copies overlap."
    yield Fault(
        waits,
        f"Load the input sooner. The step waits {_of(figures, waits)} for it: raise DataLoader's num_workers "
        f"or prefetch_factor, or prepare samples beforehand.{late}{pinned}",
        {},
    )


def _launches(figures: Figures) -> Iterator[Fault]:
    waits = figures.limits.get("launches", 0.0)
    each = seconds(waits / max(figures.launches, 1.0))
    on_device = (
        "Launch fewer, larger kernels. "
        f"The step is launch-bound: the device waits {_of(figures, waits)} because the host launches kernels too "
        f"slowly ({figures.launches:,.0f} launches a step, {each} of waiting each): use torch.compile or CUDA graphs, "
        "fused optimizers, or a larger micro-batch."
    )
    on_processor = (
        "Call fewer, larger operators. "
        f"The step is launch-bound: the processor spends {_of(figures, waits)} on calling small operators "
        f"({figures.launches:,.0f} calls a step, {each} each): use torch.compile, fused optimizers, or a larger "
        "micro-batch."
    )
    yield Fault(waits, on_device if figures.has_device else on_processor, {})


def _products(figures: Figures) -> Iterator[Fault]:
    if figures.products is not None and (found := lost(figures, figures.products)) is not None:
        yield Fault(found.gain_s, found.sentence, {})


def _network(figures: Figures) -> Iterator[Fault]:
    exposed = figures.communication_s
    by_kind = {row.operator: float(row.exposed_s) for row in figures.rows if row.phase == "communication"}
    if "send-recv" in by_kind:
        by_kind["send-recv"] -= figures.limits.get("bubble", 0.0) + figures.limits.get("transfers", 0.0)
    kind = max(by_kind, key=lambda name: by_kind[name], default="communication")
    # Nothing but the passes can hide it, and what they hide already they cannot hide twice.
    room = max(figures.phase_s("forward", "backward") - figures.overlapped_s, 0.0)
    how = {
        "all-reduce": "start it in buckets during the backward pass (DistributedDataParallel does; bucket_cap_mb sets "
        "their size, gradient_as_bucket_view saves a copy)",
        "all-gather": "prefetch the next layer's weights (FSDP's forward and backward prefetch), or shard less",
        "reduce-scatter": "let it overlap with the backward pass, or accumulate more micro-batches per step",
        "all-to-all": "overlap the exchange of experts with computation, or keep experts inside a node",
    }.get(kind, "overlap it with computation, or send less")
    yield Fault(
        min(exposed, room),
        "Overlap communication with computation. "
        f"What nothing hides, mostly {kind}, takes {_of(figures, exposed)}: {how}; at best all that the passes could "
        f"hide is saved.{_slow(figures)}",
        {},
    )


def _slow(figures: Figures) -> str:
    """What is remarkable of a slow collective, and which traces would tell more."""
    said = slow_one(figures)
    return f" {said}" if said else ""


def _imbalance(figures: Figures) -> Iterator[Fault]:
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
        f"They are uneven: on average a rank waits {_of(figures, waits)} in collectives for rank {slow.rank}, which "
        f"comes last; {cause}, and check that its {'device' if figures.has_device else 'processor'} is not slower.",
        {},
    )


def _eager(figures: Figures) -> Iterator[Fault]:
    core = figures.module_s(CORE) - figures.module_s(CORE, "flash attention")
    stored = core - figures.module_s(CORE, *_FUSED)
    kernels = "attn_implementation='sdpa'" + (" or 'flash_attention_2'" if figures.has_device else "")
    # Only products of eager attention are called so, even where frames say which module they are of.
    if figures.module_s(CORE, _FUSED[0]) > 0 and figures.module_s(CORE, "softmax") > 0:
        yield Fault(
            # A fused kernel computes the same products but writes no scores.
            stored,
            "Use flash attention. "
            f"Attention is eager: it takes {_of(figures, core)}, of which {seconds(stored)} is softmax, "
            f"masks and copies of scores in memory: choose a fused kernel ({kernels}, plan.attention: flash).",
            {"plan.attention": "flash"},
        )


def _recompute(figures: Figures) -> Iterator[Fault]:
    again = figures.phases.get("recompute", 0.0)
    yield Fault(
        again,
        "Recompute less, as far as memory allows. "
        f"Activation checkpointing runs parts of the model again in the backward pass: {_of(figures, again)}. It saves "
        "memory; where some is left, checkpoint fewer layers, or only the operators that are cheap to run again "
        "(selective recomputation), or free memory by sharding; at best all of it is saved.",
        {"plan.recompute": "none"},
    )


def _synchronization(figures: Figures) -> Iterator[Fault]:
    waits = figures.reasons[Reason.SYNCHRONIZATION] + figures.reasons[Reason.TO_HOST]
    yield Fault(
        waits,
        "Synchronize less often. "
        f"The device stands still {_of(figures, waits)} after the host waited for it: avoid .item(), .cpu(), nonzero "
        "and torch.cuda.synchronize() inside the step, or do them every few steps.",
        {},
    )


def _host(figures: Figures) -> Iterator[Fault]:
    waits = figures.reasons[Reason.HOST] - max(figures.long_parts.get("host", 0.0), 0.0)
    inside = f", longest in {figures.slow_call}" if figures.slow_call else ""
    idle = (
        f"The device stands still {_of(figures, waits)} while the host launches nothing{inside}: look for allocations, "
        if figures.has_device
        else f"The processor runs no operator for {_of(figures, waits)}{inside}: look for "
    )
    yield Fault(
        waits,
        "Move other work out of the step. "
        f"{idle}logging, checkpoints, metrics or Python work, and move it to another thread.",
        {},
    )


def _offload(figures: Figures) -> Iterator[Fault]:
    copies = figures.limits.get("offload", 0.0)
    pageable = min(figures.pageable_others_s, copies)
    if pageable > 0.5 * copies:
        yield Fault(
            copies,
            "Pin the memory that the step copies from. "
            f"Copies to the device, other than those of the input, take {_of(figures, copies)} in which nothing else "
            "runs, mostly from pageable memory, which makes the host wait for each: pin_memory() with "
            "non_blocking=True lets them overlap, or keep the tensors on the device; at best all of it is saved.",
            {},
        )
        return
    which = (
        f"The optimizer updates on the processor ({figures.cpu_optimizer}); gradients and weights are copied"
        if figures.cpu_optimizer
        else "What is offloaded to the host's memory is copied to the device"
    )
    yield Fault(
        copies,
        "Offload less, or copy sooner. "
        f"{which} in {_of(figures, copies)} in which nothing else runs: copy early on a stream of its own from pinned "
        "memory, or keep more of it on the device if it fits; at best all of it is saved.",
        {},
    )


def _starting(figures: Figures) -> Iterator[Fault]:
    waits = figures.reasons[Reason.STARTING]
    yield Fault(
        waits,
        "Profile later steps. "
        f"Compilation, loading of kernels and set-up of libraries take {_of(figures, waits)}, which steps after the "
        "first do not repeat: torch.profiler.schedule(wait=5, warmup=2, active=3) leaves them out.",
        {},
    )


def _long(figures: Figures) -> Iterator[Fault]:
    # Communication of every n-th step is advised on as communication.
    if (long := figures.long) is None or max(figures.long_parts, key=figures.long_parts.__getitem__) == "network":
        return
    which = f"{long.steps} of {long.of} steps take" if long.steps > 1 else f"One of {long.of} steps takes"
    yield Fault(
        long.extra_ns / 1e9,
        "Shorten the long steps. "
        f"{which} {seconds(long.long_ns / 1e9)} where the others take {seconds(long.usual_ns / 1e9)}, mostly for "
        f"{fills(figures)}: do checkpoints, evaluation and logging less often or in another thread, and make batches "
        "alike; at best all of it is saved.",
        {},
    )


def _idle(figures: Figures) -> Iterator[Fault]:
    gaps = figures.limits.get("idle", 0.0)
    known = (
        f"the next kernel was launched in time but waited, and streams wait for events {figures.stream_waits:,.0f} "
        "times a step: look for wait_stream, record_stream and events between streams"
        if figures.stream_waits
        else "the next kernel was launched in time but waited for another stream, an event or something outside of "
        "the trace"
    )
    yield Fault(
        gaps,
        "Record what the gaps are. "
        f"Nothing runs for {_of(figures, gaps)}, and the trace does not say why: {known}. Record with_stack=True, CUDA "
        "and CPU activities, all threads and all ranks; at best all of it is saved.",
        {},
    )


def _bubble(figures: Figures) -> Iterator[Fault]:
    waits = figures.limits.get("bubble", 0.0)
    yield Fault(
        0.5 * waits,
        "Shrink the pipeline bubble. "
        f"Stages wait {_of(figures, waits)} for each other: twice as many micro-batches, or an interleaved "
        "schedule, would halve that.",
        {},
    )


def _transfers(figures: Figures) -> Iterator[Fault]:
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
        f"Those that take longer than the fastest of their kind and size add {_of(figures, waits)}. The trace does not "
        "tell whether they wait for the other rank (another pipeline stage, or a neighbor in a ring) or for the link: "
        f"{look}; at best all of it is saved.",
        {},
    )


_FAULTS: tuple[Callable[[Figures], Iterator[Fault]], ...] = (
    _input,
    _launches,
    _products,
    _network,
    _imbalance,
    _eager,
    _recompute,
    _synchronization,
    _host,
    _bubble,
    _transfers,
    _offload,
    _starting,
    _long,
    _idle,
)
