"""Whether a job is a pipeline: whether its sends and receives are those between stages, or of something else."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from sightline.traces.activity import Activity
from sightline.traces.events import Integers, Trace
from sightline.traces.operators.phases import PHASES, RECOMPUTE

_ONE_WAY = re.compile(r"(?:nccl|rccl|gloo|c10d)::?_?i?(send|recv)", re.IGNORECASE)
_PEERS = re.compile(r"(\d+)(?:->|<-)(\d+)")
_SEND, _RECEIVE = frozenset({"send"}), frozenset({"recv"})

Way = tuple[str, str, Integers]
"""Direction, peer, and when such transfers are launched."""
Ways = dict[str, set[tuple[str, str]]]
"""Directions and peers of transfers by phase."""


def has_stages(traces: Sequence[Trace], activities: Sequence[Activity]) -> bool:
    """Return whether transfers of a job are those between the stages of a pipeline.

    The first stage only sends in the forward pass and only receives in the backward pass, and the last the other way
    round; a stage between them sends to one neighbor in the forward pass and to the other in the backward pass. An
    exchange in a ring, as context parallelism has it, does both at once and the same way in each pass. Where the trace
    tells no direction, or not the rank, nothing is claimed.
    """
    known = [pair for pair in zip(traces, activities, strict=True) if pair[0].rank is not None]
    return any(_is_edge(ways) or _is_between(ways) for ways in (_ways(*pair) for pair in known))


def _ways(trace: Trace, activity: Activity) -> Ways:
    """What is sent behind the kernels of each phase, and received before them, with the peer where it is named.

    Transfers of the backward pass are launched outside of autograd's engine, so the kernels next to them tell it.
    """
    found: Ways = defaultdict(set)
    compute = activity.compute
    if not len(compute):
        return found
    order = np.argsort(compute.launch_start, kind="stable")
    launched = compute.launch_start[order]
    phases = np.array([PHASES.index(key.phase) if key.phase in PHASES else 0 for key in activity.keys])
    phase = phases[compute.key[order]]
    # What runs again belongs to the backward pass of its micro-batch.
    phase[phase == RECOMPUTE] = PHASES.index("backward")
    for direction, peer, instants in list(_of_calls(trace)) or _of_kernels(activity):
        place = np.searchsorted(launched, instants)
        place = np.clip(place - (direction == "send"), 0, len(launched) - 1)
        for one in np.unique(phase[place]).tolist():
            found[PHASES[one]].add((direction, peer))
    return found


def _of_calls(trace: Trace) -> Iterator[Way]:
    """Transfers by the operators of the host, which name the peer also where one kernel runs a batch of them."""
    events = trace.events
    for name, direction in (("c10d::send", "send"), ("c10d::recv_", "recv")):
        chosen = (events.peer >= 0) & trace.matching(name.__eq__)
        for peer in np.unique(events.peer[chosen]).tolist():
            yield direction, str(peer), events.start[chosen & (events.peer == peer)]


def _of_kernels(activity: Activity) -> Iterator[Way]:
    """Transfers by their kernels, or annotations of the host, as far as their names tell direction and peer."""
    talk = activity.communication
    for number in np.unique(talk.key).tolist():
        key = activity.keys[number]
        if key.work.operator != "send-recv":
            continue
        way, peers = _ONE_WAY.search(key.by or key.name), _PEERS.search(key.by or key.name)
        yield way[1].lower() if way else "unknown", peers[2] if peers else "", talk.launch_start[talk.key == number]


def _is_edge(ways: Ways) -> bool:
    forward, backward = (frozenset(way for way, _ in ways[phase]) for phase in ("forward", "backward"))
    return {forward, backward} == {_SEND, _RECEIVE}


def _is_between(ways: Ways) -> bool:
    forward, backward = ({peer for way, peer in ways[phase] if way == "send"} for phase in ("forward", "backward"))
    return len(forward) == len(backward) == 1 and forward != backward
