"""What a kernel belongs to: its operator, its module, its phase of the step, eager attention."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sightline.traces.events import Events, Flags, Integers, Kind, Trace, holding
from sightline.traces.operator_names import UNMATCHED, Work

if TYPE_CHECKING:
    from sightline.traces.activity import Key


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nesting:
    """Operators of all threads, by thread and then by start."""

    order: Integers
    """Places of the operators in the events."""
    parent: Integers
    """Place in ``order`` of the operator around each; -1 for the outermost."""
    first: dict[int, tuple[int, int]]
    """Of each thread the range of its operators in ``order``."""


def nested(events: Events, chosen: Flags) -> Nesting:
    """Return how the chosen events nest on their threads."""
    places = np.flatnonzero(chosen)
    order = places[np.argsort(events.thread[places], kind="stable")]
    threads = events.thread[order]
    edges = np.flatnonzero(np.concatenate(([True], threads[1:] != threads[:-1]))) if len(order) else order
    ranges = list(zip(edges.tolist(), [*edges[1:].tolist(), len(order)], strict=True)) if len(order) else []
    ends, starts, parent = events.end[order].tolist(), events.start[order].tolist(), [-1] * len(order)
    for low, high in ranges:
        stack: list[int] = []
        for place in range(low, high):
            while stack and ends[stack[-1]] <= starts[place]:
                stack.pop()
            parent[place] = stack[-1] if stack else -1
            stack.append(place)
    first = {int(threads[low]): (low, high) for low, high in ranges}
    return Nesting(order=order, parent=np.array(parent, np.int64), first=first)


def innermost(events: Events, nesting: Nesting, threads: Integers, instants: Integers) -> Integers:
    """Return the operator that a thread runs at each instant, as a place in the events; -1 where it runs none."""
    running = np.full(len(instants), -1)
    for thread, (low, high) in nesting.first.items():
        here = np.flatnonzero(threads == thread)
        if not len(here):
            continue
        start = events.start[nesting.order[low:high]]
        place = np.searchsorted(start, instants[here], side="right") - 1 + low
        place = np.where(place >= low, place, -1)
        while len(late := np.flatnonzero((place >= 0) & (events.end[nesting.order[place]] < instants[here]))):
            place[late] = nesting.parent[place[late]]
        running[here] = np.where(place >= 0, nesting.order[place], -1)
    return running


def nearest(nesting: Nesting, accepted: Flags) -> Integers:
    """Return for each operator the innermost one around it, or itself, that is accepted; -1 where none is."""
    around = np.where(accepted, np.arange(len(accepted)), -1).tolist()
    for place, parent in enumerate(nesting.parent.tolist()):
        # Those around an operator stand before it.
        if around[place] < 0 <= parent:
            around[place] = around[parent]
    return np.array(around, np.int64)


def outermost(nesting: Nesting, accepted: Flags) -> Integers:
    """Return for each operator the outermost one around it, or itself, that is accepted; -1 where none is.

    Args:
        nesting: Operators.
        accepted: For each place of ``order`` whether it counts.
    """
    result = np.where(accepted, np.arange(len(accepted)), -1)
    above = nesting.parent.copy()
    while (alive := above >= 0).any():
        here = np.flatnonzero(alive)
        result[here] = np.where(accepted[above[here]], above[here], result[here])
        above[here] = nesting.parent[above[here]]
    return result


def own_stretches(events: Events, nesting: Nesting) -> tuple[Integers, Integers, Integers]:
    """Return starts, ends and owners (places in ``order``) of the stretches in which an operator runs, and none inside.

    Operators of one thread nest, so between two edges of its operators the last one that began is at work.
    """
    parts: list[tuple[Integers, Integers, Integers]] = []
    for low, high in nesting.first.values():
        order = nesting.order[low:high]
        edges = np.unique(np.concatenate((events.start[order], events.end[order])))
        begin, end = edges[:-1], edges[1:]
        place = np.searchsorted(events.start[order], begin, side="right") - 1 + low
        while len(late := np.flatnonzero((place >= 0) & (events.end[nesting.order[place]] <= begin))):
            place[late] = nesting.parent[place[late]]
        kept = place >= 0
        parts.append((begin[kept], end[kept], place[kept]))
    if not parts:
        none = np.zeros(0, np.int64)
        return none, none, none
    start, end, owner = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return start, end, owner


_PREFIX = "nn.Module: "
MODULES: Sequence[tuple[str, re.Pattern[str]]] = (
    ("norm", re.compile("Norm")),
    ("rope", re.compile("Rotary|Rope|RoPE")),
    ("embedding", re.compile("Embedding")),
    ("attention", re.compile("Attention|Attn")),
    ("experts", re.compile("Expert|MoE|Moe")),
    ("mlp", re.compile("MLP|Mlp|FeedForward|FFN")),
    ("head", re.compile(r"Linear|Loss|LMHead")),
)
"""Modules by the classes of their frames; the first that holds an instant counts, since the others stand around it."""
NO_MODULE = -1
_PRODUCTS = ("linear layers", "batched products")
_OWN = frozenset(("norm", "rope", "embedding", "head", "optimizer", "convolution"))
"""Modules that a kernel's name tells by itself."""


def modules_of(trace: Trace, nesting: Nesting, operator: Integers, thread: Integers, instants: Integers) -> Integers:
    """Return for each kernel, launched on a thread at an instant, the place of its module; -1 where none is known.

    Operators of the backward pass belong to where the forward operator of the same sequence number ran.

    Args:
        trace: With frames or without.
        nesting: Its operators.
        operator: Of each kernel, as a place in the events; -1 unknown.
        thread: That launched it.
        instants: At which it was launched.
    """
    frames = (trace.events.kind == Kind.FRAME) & trace.matching(lambda name: name.startswith(_PREFIX))
    if not frames.any() or not len(nesting.order):
        return np.full(len(instants), NO_MODULE)
    forward = _forward_of(trace, nesting, operator)
    known = forward >= 0
    place = np.maximum(forward, 0)
    thread = np.where(known, trace.events.thread[place], thread)
    instants = np.where(known, trace.events.start[place], instants)
    result = np.full(len(instants), NO_MODULE)
    for number in reversed(range(len(MODULES))):
        chosen = frames & trace.matching(lambda name, form=MODULES[number][1]: form.search(name))
        result[_inside(trace, chosen, thread, instants)] = number
    return result


def _inside(trace: Trace, frames: Flags, thread: Integers, instants: Integers) -> Flags:
    """Which instants lie in frames of their own thread."""
    events, result = trace.events, np.zeros(len(instants), bool)
    for number in np.unique(events.thread[frames]):
        here = thread == number
        result[here] = holding(trace.intervals(frames, number), instants[here]) >= 0
    return result


def _forward_of(trace: Trace, nesting: Nesting, operator: Integers) -> Integers:
    """The forward operator of each kernel of the backward pass, as a place in the events; -1 for others."""
    events, order = trace.events, nesting.order
    numbered = events.sequence[order] >= 0
    backward = numbered & (events.forward_thread[order] > 0)
    forward = order[numbered & ~backward]
    # The nearest one: a checkpointed part has its whole backward pass inside of one node.
    above = nearest(nesting, backward)
    where = np.full(len(events), -1)
    where[order] = np.arange(len(order))
    own = np.where(operator >= 0, where[np.maximum(operator, 0)], -1)
    top = np.where(own >= 0, above[np.maximum(own, 0)], -1)
    if not len(forward):
        return np.full(len(operator), -1)
    forward = forward[np.argsort(events.sequence[forward], kind="stable")]
    wanted = events.sequence[order[np.maximum(top, 0)]]
    # Views that run later carry the number of the next operator, so the last of a number is the one that has it.
    place = np.searchsorted(events.sequence[forward], wanted, side="right") - 1
    candidate = forward[np.maximum(place, 0)]
    return np.where((top >= 0) & (place >= 0) & (events.sequence[candidate] == wanted), candidate, -1)


def placed(work: Work, module: int, phase: str) -> Work:
    """Return what a kernel does with the module that its frames or its phase tell."""
    if work.bound in ("network", UNMATCHED):
        return work
    if phase == "optimizer":
        return work._replace(module="optimizer")
    if module == NO_MODULE or work.module in _OWN:
        return work
    name = MODULES[module][0]
    if name == "attention":
        name = "attention projections" if work.module == _PRODUCTS[0] else "attention core"
    return work._replace(module=name)


PHASES = ("forward", "backward", "optimizer", "recompute")
RECOMPUTE = PHASES.index("recompute")
_OPTIMIZER = re.compile(r"^Optimizer\.step#|^## ?optimizer|^optimizer(_step)?$", re.IGNORECASE)
_BACKWARD = re.compile(r"^autograd::engine::evaluate_function|Backward\d*$|^CompiledFunctionBackward")
_BACKWARD_RANGE = re.compile(r"^(## ?)?backward\b", re.IGNORECASE)
_CHECKPOINT = re.compile(r"Checkpoint\w*Backward\d*$")
"""Nodes that run a checkpointed part of the model again, and then its backward pass inside of them."""
_CHECKPOINT_FRAME = re.compile(r"utils/checkpoint\.py\(\d+\): (recompute_fn|unpack_hook)")


def phases_of(trace: Trace, thread: Integers, instants: Integers) -> Integers:
    """Return places in ``PHASES`` by what runs on a thread at each instant."""
    events = trace.events
    host = np.isin(events.kind, (Kind.OPERATOR, Kind.ANNOTATION))
    backward = _backward(trace)
    updates = host & trace.matching(_OPTIMIZER.search)
    result = np.zeros(len(instants), np.int64)
    for phase, chosen in ((1, backward), (2, updates)):
        for number in np.unique(events.thread[chosen]):
            here = thread == number
            inside = holding(trace.intervals(chosen, number, longer_ns=1), instants[here]) >= 0
            result[np.flatnonzero(here)[inside]] = phase
    return np.where((result == 1) & _recomputed(trace, backward, thread, instants), RECOMPUTE, result)


def phases_on_device(trace: Trace, kernel: Integers) -> Integers:
    """Return places in ``PHASES`` of kernels of unknown launch, by the ranges around them on their device.

    Args:
        trace: Of one device.
        kernel: Places in the events.
    """
    events = trace.events
    ranges = events.kind == Kind.DEVICE_ANNOTATION
    result = np.zeros(len(kernel), np.int64)
    for phase, form in ((1, _BACKWARD_RANGE), (2, _OPTIMIZER)):
        named = trace.matching(form.search)
        around = trace.intervals(ranges & named)
        result[(holding(around, events.start[kernel]) >= 0) | named[kernel]] = phase
    return result


def _backward(trace: Trace) -> Flags:
    return np.asarray((trace.events.kind == Kind.OPERATOR) & trace.matching(_BACKWARD.search))


def _recomputed(trace: Trace, backward: Flags, thread: Integers, instants: Integers) -> Flags:
    """Which instants of the backward pass lie in a part of the model that runs again.

    Operators have a sequence number where autograd records them: those of the forward pass, and in the backward pass
    those that activation checkpointing runs again. The innermost such operator or node of the backward pass counts.
    """
    events = trace.events
    recorded = (events.kind == Kind.OPERATOR) & (events.sequence >= 0) & (events.forward_thread <= 0) & ~backward
    nodes = backward & trace.matching(_CHECKPOINT.search)
    frames = (events.kind == Kind.FRAME) & trace.matching(_CHECKPOINT_FRAME.search)
    again = recorded | nodes | frames
    place = innermost(events, nested(events, backward | again), thread, instants)
    return np.asarray((place >= 0) & again[place])


CORE = "attention core"
_SOFTMAX, _BATCHED, _PRODUCT = 1, 2, 3
_KINDS = {"softmax": _SOFTMAX, "batched matmul": _BATCHED, "matmul": _PRODUCT}
_PARTS = {"batched matmul": "scores and values", "softmax": "softmax"}


def attention_core(keys: "list[Key]", key: Integers, instants: Integers, batches: Integers) -> "list[Key]":
    """Return the keys with those of eager attention named so, in place of what their kernels are alone.

    A phase computes eager attention if softmax stands between two batched products of as many matrices, with no other
    product between them, and no kernel of fused attention runs. The softmax of a router or a loss stands elsewhere.

    Args:
        keys: What kernels are called.
        key: Of each kernel, as a place in ``keys``.
        instants: When each kernel was launched.
        batches: How many matrices each multiplies; -1 unknown.
    """
    if not any(each.work.operator == "softmax" for each in keys):
        return keys
    is_fused = {each.phase for each in keys if each.work.operator == "flash attention"}
    phases = {
        phase
        for phase in {each.phase for each in keys} - is_fused
        if _is_eager([_kind(each) if each.phase == phase else 0 for each in keys], key, instants, batches)
    }
    return [_renamed(each) if each.phase in phases else each for each in keys]


def _kind(key: "Key") -> int:
    # Of the host's operators matmul is the one around a product, batched or not.
    return 0 if key.name == "aten::matmul" else _KINDS.get(key.work.operator, 0)


def _is_eager(numbers: list[int], key: Integers, instants: Integers, batches: Integers) -> bool:
    kinds = np.array(numbers, np.int64)[key]
    places = np.flatnonzero(kinds)
    places = places[np.argsort(instants[places], kind="stable")]
    kinds = kinds[places]
    products = np.flatnonzero(kinds != _SOFTMAX)
    after = np.searchsorted(products, np.flatnonzero(kinds == _SOFTMAX))
    after = after[(after > 0) & (after < len(products))]
    first, second = products[after - 1], products[after]
    batched = (kinds[first] == _BATCHED) & (kinds[second] == _BATCHED)
    one, other = batches[places[first]], batches[places[second]]
    return bool((batched & ((one == other) | (one < 0) | (other < 0))).any())


def _renamed(key: "Key") -> "Key":
    part = _PARTS.get(key.work.operator)
    return key if part is None else replace(key, work=Work(CORE, part, key.work.bound))
