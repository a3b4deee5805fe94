"""Every instant of a rank's step given exactly one reason, and every kernel the seconds that only it explains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from sightline.traces.activity import Activity, Key
from sightline.traces.events import Integers, Trace
from sightline.traces.intervals import EMPTY, Intervals, merged, overlap, own_parts, painted
from sightline.traces.steps import Steps
from sightline.traces.waits import slow_calls, waits_of


class Reason(IntEnum):
    """What an instant of a step goes to, the first that holds."""

    COMPUTE = 0
    IMBALANCE = 1
    BUBBLE = 2
    NETWORK = 3
    INPUT = 4
    TO_HOST = 5
    SYNCHRONIZATION = 6
    HOST = 7
    LAUNCHES = 8
    IDLE = 9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Breakdown:
    """One rank's step: nanoseconds, averaged over the steps that count."""

    trace: Trace
    activity: Activity
    steps: Steps
    whole_ns: float
    reasons: NDArray[np.float64]
    """By `Reason`; they sum to ``whole_ns``."""
    keys: Sequence[Key]
    exposed_ns: NDArray[np.float64]
    """By key: instants at which no earlier kernel runs; those of compute sum to ``Reason.COMPUTE``."""
    run_ns: NDArray[np.float64]
    """By key: all the time that it runs."""
    counts: NDArray[np.float64]
    """By key: kernels, or operators, of a step."""
    flops: NDArray[np.float64]
    """By key: FLOPs of a step's matrix products whose shapes were recorded."""
    hidden_ns: float
    """Communication that runs while something computes."""
    launches: float
    """Kernels of a step."""
    slow_calls: Mapping[str, int]
    """Nanoseconds of all steps in which the device waits for a long call or operator of the host, by its name."""


def breakdown(trace: Trace, activity: Activity, steps: Steps, waiting: Intervals = EMPTY) -> Breakdown:
    """Return the breakdown of a rank's step; ``waiting`` are instants at which it waits in a collective for others."""
    low, high = int(steps.edges[0]), int(steps.edges[-1])
    waits = waits_of(trace, activity, low, high)
    talk = activity.communication.intervals
    loading = joined_input(activity, waits.input)
    layers = [
        activity.compute.intervals,
        overlap(waiting, talk) if len(waiting.start) and len(talk.start) else EMPTY,
        _bubbles(activity),
        talk,
        loading,
        activity.to_host.intervals,
        waits.synchronization,
        waits.host,
        waits.launches,
        merged(steps.edges[:-1], steps.edges[1:]),
    ]
    edges, labels = painted([*layers, Intervals(steps.edges[:-1], steps.edges[1:])])
    weight = np.zeros(len(steps.lengths))
    weight[steps.counted] = 1.0 / len(steps.counted)
    place = np.searchsorted(steps.edges, edges[:-1], side="right") - 1
    inside = (place >= 0) & (place < len(weight)) & (labels < len(Reason))
    lengths = np.diff(edges)[inside] * weight[place[inside]]
    reasons = np.bincount(labels[inside], weights=lengths, minlength=len(Reason)).astype(np.float64)
    exposed, run, counts, flops = _by_key(activity, steps, weight)
    return Breakdown(
        trace=trace,
        activity=activity,
        steps=steps,
        whole_ns=float((steps.lengths * weight).sum()),
        reasons=reasons,
        keys=activity.keys,
        exposed_ns=exposed,
        run_ns=run,
        counts=counts,
        flops=flops,
        hidden_ns=float(_inside(*overlap(layers[0], talk), steps.edges, weight).sum()) if len(talk.start) else 0.0,
        launches=float(weight[_step_of(activity.launched, steps, weight)].sum()),
        slow_calls=slow_calls(trace, waits.host),
    )


def _step_of(instants: Integers, steps: Steps, weight: NDArray[np.float64]) -> Integers:
    """The steps of those instants that lie in one."""
    step = np.searchsorted(steps.edges, instants, side="right") - 1
    return step[(step >= 0) & (step < len(weight))]


def joined_input(activity: Activity, waiting: Intervals) -> Intervals:
    """Waits for input, copies to the device included."""
    copies = activity.to_device.intervals
    return merged(np.concatenate((waiting.start, copies.start)), np.concatenate((waiting.end, copies.end)))


def _bubbles(activity: Activity) -> Intervals:
    """Instants at which a stage waits for its neighbor: a transfer that takes longer than the fastest of its kind."""
    pieces = activity.communication
    transfers = np.array([key.work.operator == "send-recv" for key in activity.keys], bool)
    chosen = pieces.where(transfers[pieces.key]) if len(pieces) else pieces
    if not len(chosen):
        return EMPTY
    length = chosen.end - chosen.start
    _, kind = np.unique(np.stack((chosen.key, chosen.size)), axis=1, return_inverse=True)
    fastest = np.full(int(kind.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(fastest, kind.reshape(-1), length)
    return merged(chosen.start, chosen.end - fastest[kind.reshape(-1)])


def _by_key(activity: Activity, steps: Steps, weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Exposed and running nanoseconds, counts and FLOPs of every key."""
    size = len(activity.keys)
    exposed, run, counts, flops = np.zeros((4, size))
    for pieces, hidden in ((activity.compute, EMPTY), (activity.communication, activity.compute.intervals)):
        if not len(pieces):
            continue
        own = own_parts(pieces.start, pieces.end)
        for start, end, total in ((*own, exposed), (pieces.start, pieces.end, run)):
            shared = _inside(start, end, steps.edges, weight)
            if total is exposed and len(hidden.start):
                shared = shared - _covered(start, end, hidden, steps.edges, weight)
            total[:] += np.bincount(pieces.key, weights=shared, minlength=size)
        step = np.searchsorted(steps.edges, pieces.start, side="right") - 1
        there = (step >= 0) & (step < len(weight))
        for each, total in ((pieces.begins, counts), (pieces.flops, flops)):
            total[:] += np.bincount(pieces.key[there], weights=weight[step[there]] * each[there], minlength=size)
    return exposed, run, counts, flops


def _inside(start: Integers, end: Integers, edges: Integers, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted nanoseconds of intervals inside steps."""
    upto = np.concatenate(([0.0], np.cumsum(np.diff(edges) * weight)))
    result: NDArray[np.float64] = np.interp(end, edges, upto) - np.interp(start, edges, upto)
    return result


def _covered(
    start: Integers, end: Integers, by: Intervals, edges: Integers, weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weighted nanoseconds of intervals that others, which are disjoint, cover."""
    points = np.unique(np.concatenate((by.start, by.end, edges)))
    inside = _inside(points[:-1], points[1:], edges, weight)
    covered = np.searchsorted(by.start, points[:-1], side="right") > np.searchsorted(by.end, points[:-1], side="right")
    upto = np.concatenate(([0.0], np.cumsum(np.where(covered, inside, 0.0))))
    result: NDArray[np.float64] = np.interp(end, points, upto) - np.interp(start, points, upto)
    return result
