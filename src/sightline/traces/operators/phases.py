"""Which pass of a step a kernel belongs to, by what runs on the launching thread at its launch."""

import re

import numpy as np

from sightline.traces.events import Flags, Integers, Kind, Trace
from sightline.traces.intervals import holding, merged
from sightline.traces.operators.nesting import innermost, nested

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
            own = chosen & (events.thread == number)
            here = thread == number
            inside = holding(merged(events.start[own], events.end[own] + 1), instants[here]) >= 0
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
        around = merged(events.start[ranges & named], events.end[ranges & named])
        result[(holding(around, events.start[kernel]) >= 0) | named[kernel]] = phase
    return result


def _backward(trace: Trace) -> Flags:
    flags: Flags = (trace.events.kind == Kind.OPERATOR) & trace.matching(_BACKWARD.search)
    return flags


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
    flags: Flags = (place >= 0) & again[place]
    return flags
