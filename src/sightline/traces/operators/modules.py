"""Which module of the model a kernel belongs to, where the trace has the frames of ``nn.Module`` (``with_stack``)."""

import re
from collections.abc import Sequence

import numpy as np

from sightline.traces.events import Flags, Integers, Kind, Trace
from sightline.traces.intervals import holding, merged
from sightline.traces.operators.names import UNMATCHED, Work
from sightline.traces.operators.nesting import Nesting, nearest

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
        own, here = frames & (events.thread == number), thread == number
        result[here] = holding(merged(events.start[own], events.end[own]), instants[here]) >= 0
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
    found = forward[np.maximum(place, 0)]
    return np.where((top >= 0) & (place >= 0) & (events.sequence[found] == wanted), found, -1)


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
