"""Faults of a traced step, ranked by the seconds that removing each would save."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sightline.explanation.answer import Advice
from sightline.explanation.traced.communication import bubble, imbalance, network, transfers
from sightline.explanation.traced.fault import Fault, part
from sightline.explanation.traced.figures import Figures
from sightline.explanation.traced.products import lost
from sightline.explanation.traced.sentences import fills
from sightline.prediction.changes import seconds
from sightline.traces.breakdown import Reason
from sightline.traces.operators import CORE

if TYPE_CHECKING:
    from sightline.explanation.traced.model import Predicted

MOST = 3
"""Changes that are advised."""
_LEAST = 0.02
"""Share of the step that removing a fault has to save."""
_FUSED = ("scores and values", "matmul")
"""Operators of attention that a fused kernel has too; the rest handles scores in memory."""


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
        sentence=f"{fault.sentence} With this the step would take about {left}.",
        command=fault.command,
    )


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
        f"Load the input sooner. The step waits {part(figures, waits)} for it: raise DataLoader's num_workers "
        f"or prefetch_factor, or prepare samples beforehand.{late}{pinned}",
        {},
    )


def _launches(figures: Figures) -> Iterator[Fault]:
    waits = figures.limits.get("launches", 0.0)
    each = seconds(waits / max(figures.launches, 1.0))
    larger = "fused optimizers, or a larger micro-batch" if figures.trains else "or a larger batch"
    leads = waits >= max(figures.limits.values(), default=0.0)
    bound = "The step is launch-bound: launches" if leads else "Launches"
    on_device = (
        f"Launch fewer, larger kernels. {bound} take {part(figures, waits)}, while the device waits for the host "
        f"({figures.launches:,.0f} launches a step, {each} of waiting each): use torch.compile or CUDA graphs, "
        f"{larger}."
    )
    on_processor = (
        f"Call fewer, larger operators. {bound} take {part(figures, waits)}, on the processor "
        f"({figures.launches:,.0f} calls a step, {each} each with the gaps between them): use torch.compile, {larger}."
    )
    yield Fault(waits, on_device if figures.has_device else on_processor, {})


def _products(figures: Figures) -> Iterator[Fault]:
    if figures.products is not None and (found := lost(figures, figures.products)) is not None:
        yield Fault(found.gain_s, found.sentence, {})


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
            f"Attention is eager: it takes {part(figures, core)}, of which {seconds(stored)} is softmax, "
            f"masks and copies of scores in memory: choose a fused kernel ({kernels}, plan.attention: flash).",
            {"plan.attention": "flash"},
        )


def _recompute(figures: Figures) -> Iterator[Fault]:
    again = figures.phases.get("recompute", 0.0)
    yield Fault(
        again,
        "Recompute less, as far as memory allows. "
        f"Activation checkpointing runs parts of the model again in the backward pass: {part(figures, again)}. It "
        "saves memory; where some is left, checkpoint fewer layers, or only the operators that are cheap to run again "
        "(selective recomputation), or free memory by sharding; at best all of it is saved.",
        {"plan.recompute": "none"},
    )


def _synchronization(figures: Figures) -> Iterator[Fault]:
    waits = figures.reasons[Reason.SYNCHRONIZATION] + figures.reasons[Reason.TO_HOST]
    yield Fault(
        waits,
        "Synchronize less often. "
        f"The device stands still {part(figures, waits)} after the host waited for it: avoid .item(), .cpu(), nonzero "
        "and torch.cuda.synchronize() inside the step, or do them every few steps.",
        {},
    )


def _host(figures: Figures) -> Iterator[Fault]:
    waits = figures.reasons[Reason.HOST] - max(figures.long_parts.get("host", 0.0), 0.0)
    inside = f", longest in {figures.slow_call}" if figures.slow_call else ""
    idle = (
        f"The device stands still {part(figures, waits)} while the host launches nothing{inside}: look for "
        "allocations, "
        if figures.has_device
        else f"The processor runs no operator for {part(figures, waits)}{inside}: look for "
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
            f"Copies to the device, other than those of the input, take {part(figures, copies)} in which nothing else "
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
        f"{which} in {part(figures, copies)} in which nothing else runs: copy early on a stream of its own from pinned "
        "memory, or keep more of it on the device if it fits; at best all of it is saved.",
        {},
    )


def _starting(figures: Figures) -> Iterator[Fault]:
    waits = figures.reasons[Reason.STARTING]
    yield Fault(
        waits,
        "Profile later steps. "
        f"Compilation, loading of kernels and set-up of libraries take {part(figures, waits)}, which steps after the "
        "first do not repeat: torch.profiler.schedule(wait=5, warmup=2, active=3) leaves them out.",
        {},
    )


def _long(figures: Figures) -> Iterator[Fault]:
    if (long := figures.long) is None:
        return
    most = max(figures.long_parts, key=figures.long_parts.__getitem__)
    # Communication of every n-th step, and a first step that is set up, are advised on as what they are.
    if most == "network" or long.reasons_ns[Reason.STARTING] > 0.5 * long.extra_ns:
        return
    how = {
        "compute": "make batches alike (tokens, not samples), and run evaluation apart from training",
        "host": "do checkpoints, evaluation and logging less often or in another thread",
        "input": "load more batches ahead, for the slow ones among them",
    }.get(most, "look at what only these steps do")
    which = f"{long.steps} of {long.of} steps take" if long.steps > 1 else f"One of {long.of} steps takes"
    yield Fault(
        long.extra_ns / 1e9,
        "Shorten the long steps. "
        f"{which} {seconds(long.long_ns / 1e9)} where the others take {seconds(long.usual_ns / 1e9)}, mostly for "
        f"{fills(figures)}: {how}; at best all of it is saved.",
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
        f"Nothing runs for {part(figures, gaps)}, and the trace does not say why: {known}. Record with_stack=True, "
        "CUDA and CPU activities, all threads and all ranks; at best all of it is saved.",
        {},
    )


_FAULTS: tuple[Callable[[Figures], Iterator[Fault]], ...] = (
    _input,
    _launches,
    _products,
    network,
    imbalance,
    _eager,
    _recompute,
    _synchronization,
    _host,
    bubble,
    transfers,
    _offload,
    _starting,
    _long,
    _idle,
)
