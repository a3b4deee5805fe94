"""Faults of a traced step, ranked by the seconds that removing each would save."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from sightline.explanation.answer import Advice
from sightline.explanation.traced.step_figures import Figures, fills, slow_one
from sightline.prediction.changes import seconds
from sightline.quantities import FLOPS, format_quantity, percent
from sightline.traces.breakdown import Reason
from sightline.traces.findings import SmallProducts
from sightline.traces.nesting import CORE
from sightline.traces.operator_names import UNNAMED

if TYPE_CHECKING:
    from sightline.explanation.traced.traced_step import Predicted


class Fault(NamedTuple):
    """Something that a step need not spend."""

    gain_s: float
    sentence: str
    """The finding and what to do; what the step would take without it is added."""
    set: dict[str, object] | None = None
    command: str = ""


def part(figures: Figures, part_s: float) -> str:
    """Return some seconds of the step, and their share of it, in words."""
    return f"{seconds(part_s)} of {seconds(figures.whole_s)} ({percent(part_s / figures.whole_s)})"


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
    slow = slow_one(figures)
    yield Fault(
        min(exposed, room),
        "Overlap communication with computation. Exposed communication, mostly "
        f"{'of unknown type' if kind == UNNAMED else kind}, takes {part(figures, exposed)}: "
        f"{_how(figures, kind)}. At best, all that the passes can overlap is saved.{f' {slow}' if slow else ''}",
    )


def _how(figures: Figures, kind: str) -> str:
    """What helps against exposed collectives of a kind."""
    return {
        "all-reduce": _all_reduces(figures),
        "all-gather": "prefetch the next layer's weights (FSDP's forward and backward prefetch), or shard less",
        "reduce-scatter": "overlap it with the backward pass, or accumulate more micro-batches per step",
        "all-to-all": "overlap the exchange (such as of experts) with computation, or keep it within a node",
    }.get(kind, "overlap it with computation, or send less")


def _all_reduces(figures: Figures) -> str:
    if figures.reduced_in_forward > _IN_FORWARD:
        return (
            "many are in the forward pass, as with tensor parallelism, and the next operator needs their result: "
            "use fewer tensor-parallel ranks, keep them within a node, or overlap in parts (asynchronous tensor "
            "parallelism, two alternating micro-batches)"
        )
    if figures.has_buckets:
        return (
            "DistributedDataParallel already sends buckets during the backward pass: accumulate gradients of "
            "several micro-batches under no_sync(), send them in 16 bits (bf16_compress_hook), or try another "
            "bucket_cap_mb"
        )
    return (
        "start it in buckets during the backward pass (as DistributedDataParallel does; bucket_cap_mb sets their "
        "size, gradient_as_bucket_view saves a copy)"
    )


def imbalance(figures: Figures) -> Iterator[Fault]:
    """Yield what ranks lose waiting for the slowest."""
    waits = figures.limits.get("imbalance", 0.0)
    slow = max(figures.ranks, key=lambda rank: rank.behind_s)
    others = [rank.compute_s for rank in figures.ranks if rank is not slow]
    usual = sum(others) / len(others) if others else slow.compute_s
    cause = (
        f"it computes for {seconds(slow.compute_s)}, the others for {seconds(usual)}: balance the batches "
        "(tokens per rank, not samples)"
        if slow.compute_s > 1.1 * usual
        else "it does not compute longer than the others: check its input and its host"
    )
    yield Fault(
        waits,
        f"Balance the ranks. On average, a rank waits {part(figures, waits)} in collectives for rank "
        f"{slow.rank}, which arrives last; {cause}, and check that its "
        f"{'device' if figures.has_device else 'CPU'} is not slower.",
    )


def bubble(figures: Figures) -> Iterator[Fault]:
    """Yield what stages of a pipeline lose waiting for each other."""
    waits = figures.limits.get("bubble", 0.0)
    yield Fault(
        0.5 * waits,
        f"Shrink the pipeline bubble. Stages wait {part(figures, waits)} for each other. Twice the "
        "micro-batches, or an interleaved schedule, would halve that.",
    )


def transfers(figures: Figures) -> Iterator[Fault]:
    """Yield what is lost in slow sends and receives of which the trace does not say what they wait for."""
    waits = figures.limits.get("transfers", 0.0)
    look = (
        "explain the traces of all ranks together, including the first and last stage: sightline explain rank-*.json.gz"
        if len(figures.ranks) < figures.world_size or len(figures.ranks) == 1
        else "check in the trace of the other rank what it does meanwhile"
    )
    yield Fault(
        waits,
        "Find out what sends and receives wait for. Those slower than the fastest of their type and size add "
        f"{part(figures, waits)}. The trace does not show whether they wait for the other rank (another pipeline "
        f"stage, or the next rank in a ring) or for the link: {look}. At best, all of it is saved.",
    )


_SHARED = 0.2
"""Share of products that read the input of the one before from which on fusing them is advised."""
_GAPS = 0.05
"""Share of the step that waits for launches from which on CUDA graphs are."""
_FILLED = 0.5
"""Share of the rate of large products from which on small ones fill the device well enough."""
_LARGE = 8192
"""Rows, columns and depth of a product that reaches what a device gives."""
_STATED = re.compile(r"(\d+) ?GB", re.IGNORECASE)


def lost(figures: Figures, small: SmallProducts) -> Fault | None:
    """Return what small products lose at best; None where they run at about the rate of large ones.

    At best their arithmetic takes as long as at the rate that large products of the same format reach in the same
    trace, or where it has none, at that predicted for the device. Without FLOPs, only what products of twice the size
    would save is told: half of the kernels, each of which takes at least as long as the shortest.
    """
    rates = {name: rate for name in small.flops if (rate := _rate(figures, small, name)) > 0}
    if not rates or set(rates) != set(small.flops):
        gain = 0.5 * small.count * small.shortest_s
        why = (
            "their FLOPs are unknown (record them with record_shapes=True); half the number at twice the size "
            "would save"
        )
        return Fault(gain, _sentence(figures, small, f"{why} {seconds(gain)} at best"))
    best_s = sum(small.flops[name] / rate for name, rate in rates.items())
    if best_s > _FILLED * small.known_s:
        return None
    fastest = max(rates.values())
    own = sum(small.flops.values()) / small.known_s
    why = (
        f"they reach {format_quantity(own, FLOPS)}, large ones {format_quantity(fastest, FLOPS)} on this device; "
        f"at best they would take {seconds(best_s)}"
    )
    return Fault(small.known_s - best_s, _sentence(figures, small, why))


def _sentence(figures: Figures, small: SmallProducts, why: str) -> str:
    each = seconds(small.exposed_s / small.count)
    return (
        f"Make the matrix products larger. {small.count:,.0f} per step take {each} each, "
        f"{part(figures, small.exposed_s)}, too short to fill the device: {why}. "
        f"{'; '.join(_remedies(figures, small))}."
    )


def _remedies(figures: Figures, small: SmallProducts) -> list[str]:
    rows = f" (currently {small.rows:,} rows per product)" if small.rows >= 0 else ""
    more = (
        "Raise the micro-batch, with fewer accumulation steps to keep the batch"
        if figures.trains
        else "Raise the batch"
    )
    found = [f"{more}{rows}"]
    if small.shared_input >= _SHARED:
        found.append("fuse products that read the same input, such as query, key and value, or gate and up")
    if figures.limits.get("launches", 0.0) > _GAPS * figures.whole_s:
        found.append("use CUDA graphs to remove the launch gaps between them")
    return found


def _rate(figures: Figures, small: SmallProducts, dtype: str) -> float:
    """FLOP/s of large products of a format; 0 where neither the trace nor the catalog tells."""
    return small.large_flops_per_s.get(dtype) or (_predicted(figures, dtype) if dtype else 0.0)


def _predicted(figures: Figures, dtype: str) -> float:
    from sightline.errors import InputError
    from sightline.loading import operation_from_mapping
    from sightline.loading.clusters.cluster import catalog_name
    from sightline.prediction import predict

    stated = _STATED.search(figures.device)
    memory = figures.device_memory_bytes or (int(stated[1]) * 1e9 if stated else 0.0)
    if (device := catalog_name({"name": figures.device, "memory_bytes": memory})) is None:
        return 0.0
    sizes = dict.fromkeys(("m", "n", "k"), _LARGE)
    asked = {
        "cluster": f"1x {device}",
        "workload": {"task": "operator", "operator": "matmul", **sizes},
        "plan": {"dtype": dtype},
    }
    try:
        return 2.0 * _LARGE**3 / float(predict(operation_from_mapping(asked)).whole_s)
    except InputError:
        return 0.0


MOST = 3
"""Changes that are advised."""
_LEAST = 0.02
"""Share of the step that removing a fault has to save."""
_FUSED = ("scores and values", "matmul")
"""Operators of attention that a fused kernel has too; the rest handles scores in memory."""


def advised(figures: Figures, predicted: "Predicted | None" = None) -> list[Advice]:
    """Return the changes that would help a traced step most: three at most, the best first."""
    compiles = predicted is None or predicted.compiles
    faults = [*_launches(figures, compiles=compiles), *(fault for find in _FAULTS for fault in find(figures))]
    known = [fault.set for fault in faults if fault.gain_s >= _LEAST * figures.whole_s]
    faults += [fault for fault in predicted.faults(figures) if fault.set not in known] if predicted else []
    worth = [fault for fault in faults if fault.gain_s >= _LEAST * figures.whole_s]
    return [_advice(fault, figures) for fault in sorted(worth, key=lambda fault: -fault.gain_s)[:MOST]]


def _advice(fault: Fault, figures: Figures) -> Advice:
    left = seconds(max(figures.whole_s - fault.gain_s, 0.0))
    return Advice(
        set=fault.set or {},
        gain_s=fault.gain_s,
        gain=fault.gain_s / figures.whole_s,
        sentence=f"{fault.sentence} The step would then take about {left}.",
        command=fault.command,
    )


def _input(figures: Figures) -> Iterator[Fault]:
    waits = figures.limits.get("input", 0.0)
    late, pinned = "", ""
    if figures.late_for_input_s > 0.1 * waits:
        slow = max(figures.ranks, key=lambda rank: rank.behind_s)
        late = f" Rank {slow.rank} waits for input, and the others wait for it in collectives."
    if figures.pageable_s - figures.pageable_others_s > 0.1 * waits:
        pinned = (
            " Batches are copied from pageable memory; use pin_memory=True and non_blocking=True to overlap the copies."
        )
    yield Fault(
        waits,
        f"Load the input earlier. The step waits {part(figures, waits)} for it: raise num_workers or "
        f"prefetch_factor of the DataLoader, or preprocess the samples.{late}{pinned}",
    )


def _launches(figures: Figures, *, compiles: bool) -> Iterator[Fault]:
    """Yield what launches cost; ``compiles``: the framework has a compiler, or is not known."""
    waits = figures.limits.get("launches", 0.0)
    each = seconds(waits / max(figures.launches, 1.0))
    larger = "fused optimizers, or a larger micro-batch" if figures.trains else "or a larger batch"
    on_host, graphs = ("torch.compile, ", "torch.compile or CUDA graphs") if compiles else ("", "CUDA graphs")
    leads = waits >= max(figures.limits.values(), default=0.0)
    bound = "The step is launch-bound: launches" if leads else "Launches"
    on_device = (
        f"Launch fewer, larger kernels. {bound} take {part(figures, waits)} while the device waits for the host "
        f"({figures.launches:,.0f} launches per step, {each} of waiting each): use {graphs}, "
        f"{larger}."
    )
    on_processor = (
        f"Call fewer, larger operators. {bound} take {part(figures, waits)} on the CPU ({figures.launches:,.0f} "
        f"calls per step, {each} each including gaps): use {on_host}{larger}."
    )
    yield Fault(waits, on_device if figures.has_device else on_processor)


def _products(figures: Figures) -> Iterator[Fault]:
    if figures.products is not None and (found := lost(figures, figures.products)) is not None:
        yield found


def _eager(figures: Figures) -> Iterator[Fault]:
    core = figures.module_s(CORE) - figures.module_s(CORE, "flash attention")
    stored = core - figures.module_s(CORE, *_FUSED)
    kernels = "attn_implementation='sdpa'" + (" or 'flash_attention_2'" if figures.has_device else "")
    # Only products of eager attention are called so, even where frames say which module they are of.
    if figures.module_s(CORE, _FUSED[0]) > 0 and figures.module_s(CORE, "softmax") > 0:
        yield Fault(
            # A fused kernel computes the same products but writes no scores.
            stored,
            f"Use flash attention. Eager attention takes {part(figures, core)}, including {seconds(stored)} for "
            f"softmax, masks and copies of scores in memory: choose a fused kernel ({kernels}, plan.attention: "
            "flash).",
            {"plan.attention": "flash"},
        )


def _recompute(figures: Figures) -> Iterator[Fault]:
    again = figures.phases.get("recompute", 0.0)
    yield Fault(
        again,
        "Recompute less if memory allows. Activation checkpointing reruns parts of the model in the backward "
        f"pass: {part(figures, again)}. If memory is left, checkpoint fewer layers, or only operators that are "
        "cheap to rerun (selective recomputation), or free memory by sharding. At best, all of it is saved.",
        {"plan.recompute": "none"},
    )


def _synchronization(figures: Figures) -> Iterator[Fault]:
    waits = figures.reasons[Reason.SYNCHRONIZATION] + figures.reasons[Reason.TO_HOST]
    yield Fault(
        waits,
        f"Synchronize less often. The device is idle {part(figures, waits)} after the host waited for it: avoid "
        ".item(), .cpu(), nonzero and torch.cuda.synchronize() in the step, or call them every few steps.",
    )


def _host(figures: Figures) -> Iterator[Fault]:
    waits = figures.reasons[Reason.HOST] - max(figures.long_parts.get("host", 0.0), 0.0)
    inside = f", longest in {figures.slow_call}" if figures.slow_call else ""
    idle = (
        f"The device is idle {part(figures, waits)} while the host launches nothing{inside}: look for allocations, "
        if figures.has_device
        else f"The CPU runs no operator for {part(figures, waits)}{inside}: look for "
    )
    yield Fault(
        waits,
        f"Move other work out of the step. {idle}logging, checkpoints, metrics or Python code, and move it to "
        "another thread.",
    )


def _offload(figures: Figures) -> Iterator[Fault]:
    copies = figures.limits.get("offload", 0.0)
    pageable = min(figures.pageable_others_s, copies)
    if pageable > 0.5 * copies:
        yield Fault(
            copies,
            "Pin the memory that the step copies from. Copies to the device, other than input, take "
            f"{part(figures, copies)} in which nothing else runs, mostly from pageable memory, so the host waits "
            "for each: use pin_memory() with non_blocking=True, or keep the tensors on the device. At best, all "
            "of it is saved.",
        )
        return
    which = (
        f"The optimizer runs on the CPU ({figures.cpu_optimizer}); gradients and weights are copied"
        if figures.cpu_optimizer
        else "State offloaded to host memory is copied to the device"
    )
    yield Fault(
        copies,
        f"Offload less, or copy earlier. {which} in {part(figures, copies)} in which nothing else runs: copy "
        "early on a separate stream from pinned memory, or keep more on the device if it fits. At best, all of "
        "it is saved.",
    )


def _starting(figures: Figures) -> Iterator[Fault]:
    waits = figures.reasons[Reason.STARTING]
    yield Fault(
        waits,
        f"Profile later steps. Compilation, kernel loading and library setup take {part(figures, waits)} and "
        "happen only once: skip them with torch.profiler.schedule(wait=5, warmup=2, active=3).",
    )


def _long(figures: Figures) -> Iterator[Fault]:
    if (long := figures.long) is None:
        return
    most = max(figures.long_parts, key=figures.long_parts.__getitem__)
    # Communication of every n-th step, and a first step that is set up, are advised on as what they are.
    if most == "network" or long.reasons_ns[Reason.STARTING] > 0.5 * long.extra_ns:
        return
    how = {
        "compute": "equalize batches (tokens, not samples), and run evaluation separately",
        "host": "run checkpoints, evaluation and logging less often or in another thread",
        "input": "prefetch more batches to cover slow ones",
    }.get(most, "check what only these steps do")
    which = f"{long.steps} of {long.of} steps take" if long.steps > 1 else f"One of {long.of} steps takes"
    yield Fault(
        long.extra_ns / 1e9,
        f"Shorten the long steps. {which} {seconds(long.long_ns / 1000000000.0)}, the others "
        f"{seconds(long.usual_ns / 1000000000.0)}, mostly due to {fills(figures)}: {how}. At best, all of it is "
        "saved.",
    )


def _idle(figures: Figures) -> Iterator[Fault]:
    gaps = figures.limits.get("idle", 0.0)
    known = (
        "the next kernel was launched in time but waited, and streams wait for events "
        f"{figures.stream_waits:,.0f} times per step: look for wait_stream, record_stream and events between "
        "streams"
        if figures.stream_waits
        else "the next kernel was launched in time but waited for another stream, an event or something outside "
        "the trace"
    )
    yield Fault(
        gaps,
        f"Record the cause of the gaps. Nothing runs for {part(figures, gaps)}, and the trace does not show why: "
        f"{known}. Record with_stack=True, CUDA and CPU activities, all threads and all ranks. At best, all of "
        "it is saved.",
    )


_FAULTS: tuple[Callable[[Figures], Iterator[Fault]], ...] = (
    *(_input, _products, network, imbalance, _eager, _recompute, _synchronization),
    *(_host, bubble, transfers, _offload, _starting, _long, _idle),
)
