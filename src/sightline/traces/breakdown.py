"""Every instant of a rank's step given exactly one reason, and every kernel the seconds that only it explains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from sightline.traces.activity import Activity, Key, Pieces, loading_of
from sightline.traces.events import (
    EMPTY,
    Flags,
    Integers,
    Intervals,
    Trace,
    between,
    holding,
    joined,
    merged,
    overlap,
    own_parts,
    painted,
    upto,
)
from sightline.traces.step_edges import Steps
from sightline.traces.waits import ON_PROCESSOR, Waits, host_synchronizes, slow_calls, waits_of


class Reason(IntEnum):
    """What an instant of a step goes to, the first that holds."""

    COMPUTE = 0
    IMBALANCE = 1
    BUBBLE = 2
    TRANSFERS = 3
    """A send or receive takes longer than the fastest of its kind and size, in a job of which stages are not known."""
    NETWORK = 4
    INPUT = 5
    OFFLOAD = 6
    """Copies to the device that are not of the input, and of gradients to an optimizer on the processor."""
    TO_HOST = 7
    STARTING = 8
    SYNCHRONIZATION = 9
    HOST = 10
    LAUNCHES = 11
    IDLE = 12


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
    bytes: NDArray[np.float64]
    """By key: bytes that a step's operators read and write; NaN where those of any are not known."""
    hidden_ns: float
    """Communication that runs while something computes."""
    launches: float
    """Kernels of a step."""
    slow_calls: Mapping[str, int]
    """Nanoseconds of all steps in which the device waits for a long call or operator of the host, by its name."""
    by_step: NDArray[np.float64]
    """Nanoseconds of every step by `Reason`, of shape ``[steps, reasons]``."""
    pageable_ns: float
    """Copies out of memory that is not pinned, other than those of the input."""


def breakdown(
    trace: Trace, activity: Activity, steps: Steps, waiting: Intervals = EMPTY, *, has_stages: bool = False
) -> Breakdown:
    """Return the breakdown of a rank's step.

    Args:
        trace: Of the rank.
        activity: What its device does.
        steps: Its steps.
        waiting: Instants at which it waits in a collective for others.
        has_stages: Whether transfers are known to be those between the stages of a pipeline.
    """
    low, high = int(steps.edges[0]), int(steps.edges[-1])
    waits = waits_of(trace, activity, low, high)
    compute, talk = activity.compute.intervals, activity.communication.intervals
    of_input = copies_of_input(trace, activity, steps)
    waiting = overlap(waiting, talk) if len(waiting.start) and len(talk.start) else EMPTY
    layers = _layers(trace, activity, waits, of_input, (waiting, talk), has_stages=has_stages)
    counted = merged(steps.edges[steps.counted], steps.edges[steps.counted + 1])
    weight = np.zeros(len(steps.lengths))
    weight[steps.counted] = 1.0 / len(steps.counted)
    by_step = _by_step(layers, steps)
    _keep_possible(by_step, steps, host_synchronizes(trace, activity))
    reasons = (weight[:, None] * by_step).sum(axis=0)
    exposed, run, counts, flops, traffic = _by_key(activity, steps, weight)
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
        bytes=traffic,
        hidden_ns=float(_inside(*overlap(compute, talk), steps.edges, weight).sum()) if len(talk.start) else 0.0,
        launches=float(weight[_step_of(activity.launched, steps, weight)].sum()),
        slow_calls=slow_calls(
            trace,
            overlap(overlap(joined(waits.host, waits.synchronization), between(waits.starting, low, high)), counted),
        ),
        by_step=by_step,
        pageable_ns=float(_inside(*_pageable(trace, activity.to_device.where(~of_input)), steps.edges, weight).sum()),
    )


def _layers(
    trace: Trace,
    activity: Activity,
    waits: Waits,
    of_input: Flags,
    communication: tuple[Intervals, Intervals],
    *,
    has_stages: bool,
) -> list[Intervals]:
    """The instants of each `Reason` but the last, in their order; the first of them that holds counts."""
    others = activity.to_device.where(~of_input).intervals
    held_up, (waiting, talk) = waits_in_transfers(activity), communication
    updates_on_host = any(map(ON_PROCESSOR.search, trace.names))
    return [
        activity.compute.intervals,
        waiting,
        *((held_up, EMPTY) if has_stages else (EMPTY, held_up)),
        talk,
        joined(waits.input, activity.to_device.where(of_input).intervals),
        joined(others, activity.to_host.intervals) if updates_on_host else others,
        activity.to_host.intervals,
        waits.starting,
        waits.synchronization,
        waits.host,
        waits.launches,
    ]


def _by_step(layers: Sequence[Intervals], steps: Steps) -> NDArray[np.float64]:
    """Nanoseconds of every step by the first layer that holds, and at the end those that none explains."""
    whole = Intervals(steps.edges[:-1], steps.edges[1:])
    edges, labels = painted([*layers, merged(*whole), whole])
    place = np.searchsorted(steps.edges, edges[:-1], side="right") - 1
    inside = (place >= 0) & (place < len(steps.lengths)) & (labels < len(Reason))
    of_step = place[inside] * len(Reason) + labels[inside]
    counted = np.bincount(of_step, weights=np.diff(edges)[inside], minlength=len(steps.lengths) * len(Reason))
    return counted.astype(np.float64).reshape(len(steps.lengths), len(Reason))


def _pageable(trace: Trace, copies: Pieces) -> Intervals:
    return copies.where(np.array(["ageable" in trace.names[n] for n in copies.name.tolist()], bool)).intervals


def _keep_possible(by_step: NDArray[np.float64], steps: Steps, synchronizing: Intervals) -> None:
    """Give to the host what a step would wait for it without any synchronization.

    Without it a step still takes as long as its device is busy, and as its host is outside of synchronizing calls.
    """
    free = np.interp(steps.edges, *upto(synchronizing))
    alone = steps.lengths - np.diff(free)
    # Copies to the host go away with what waits for them.
    busy = by_step[:, [r for r in Reason if r < Reason.TO_HOST]].sum(axis=1)
    possible = np.maximum(steps.lengths - np.maximum(alone, busy), 0.0)
    waits = by_step[:, Reason.SYNCHRONIZATION]
    impossible = np.clip(waits + by_step[:, Reason.TO_HOST] - possible, 0.0, waits)
    by_step[:, Reason.SYNCHRONIZATION] -= impossible
    by_step[:, Reason.HOST] += impossible


def _step_of(instants: Integers, steps: Steps, weight: NDArray[np.float64]) -> Integers:
    """The steps of those instants that lie in one."""
    step = np.searchsorted(steps.edges, instants, side="right") - 1
    return step[(step >= 0) & (step < len(weight))]


def copies_of_input(trace: Trace, activity: Activity, steps: Steps) -> Flags:
    """Return which copies to the device are of the input: those launched before the first kernel that follows.

    A batch is copied at the beginning of a step or behind a call of the loader, before any kernel is launched. Where
    copies of the same size follow later without a call of the loader, weights or states are brought one by one.
    """
    copies = activity.to_device
    if not len(copies):
        return np.zeros(0, bool)
    launched = np.where(copies.launch_start >= 0, copies.launch_start, copies.start)
    inside = holding(loading_of(trace), launched) >= 0
    kernels = np.sort(
        np.where(activity.compute.launch_start >= 0, activity.compute.launch_start, activity.compute.start)
    )
    behind_loader = _is_first(launched, loading_of(trace).end, kernels)
    first = inside | behind_loader | _is_first(launched, steps.begins, kernels)
    repeated = np.isin(copies.size, copies.size[~first & (copies.size >= 0)])
    return np.asarray(inside | behind_loader | (first & ~repeated))


def _is_first(instants: Integers, anchors: Integers, kernels: Integers) -> Flags:
    """Whether no kernel is launched between the last anchor and each instant."""
    place = np.searchsorted(anchors, instants, side="right") - 1
    since = anchors[np.maximum(place, 0)] if len(anchors) else instants
    between = np.searchsorted(kernels, instants) - np.searchsorted(kernels, since)
    return np.asarray((place >= 0) & (between <= 0))


def waits_in_transfers(activity: Activity) -> Intervals:
    """Return when a send or receive takes longer than the fastest of its kind and size: a stage waits for another."""
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
    """Exposed and running nanoseconds, counts, FLOPs and bytes of every key."""
    size = len(activity.keys)
    exposed, run, counts, flops, traffic = np.zeros((5, size))
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
        for each, total in ((pieces.begins, counts), (pieces.flops, flops), (pieces.bytes, traffic)):
            total[:] += np.bincount(pieces.key[there], weights=weight[step[there]] * each[there], minlength=size)
    return exposed, run, counts, flops, traffic


def _inside(start: Integers, end: Integers, edges: Integers, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted nanoseconds of intervals inside steps."""
    upto = np.concatenate(([0.0], np.cumsum(np.diff(edges) * weight)))
    return np.asarray(np.interp(end, edges, upto) - np.interp(start, edges, upto))


def _covered(
    start: Integers, end: Integers, by: Intervals, edges: Integers, weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weighted nanoseconds of intervals that others, which are disjoint, cover."""
    points = np.unique(np.concatenate((by.start, by.end, edges)))
    inside = _inside(points[:-1], points[1:], edges, weight)
    covered = np.searchsorted(by.start, points[:-1], side="right") > np.searchsorted(by.end, points[:-1], side="right")
    upto = np.concatenate(([0.0], np.cumsum(np.where(covered, inside, 0.0))))
    return np.asarray(np.interp(end, points, upto) - np.interp(start, points, upto))
