"""Loads that are read: the requests of a trace, at its times, at another rate, or as a process sends them."""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np

from sightline.errors import InputError
from sightline.loading.traces import Columns, Trace, open_trace
from sightline.loading.traces.documents import OnRemark
from sightline.scenario import Arrival, GenerationPlan, Serve
from sightline.simulation.load.arrivals import Arrivals
from sightline.simulation.load.drawn import ARRIVALS, Adapters, stream
from sightline.simulation.requests import Requests, joined

COLUMNS = tuple(f.name for f in fields(Requests))


def replayed_parts(
    workload: Serve, plan: GenerationPlan, path: str, part: int, on_remark: OnRemark
) -> Iterator[Requests]:
    """Yield the requests of a trace in parts of ``part`` requests; ``on_remark`` takes sentences on what was left out.

    Raises:
        InputError: The file is no trace, or a row of it is wrong.
    """
    trace = open_trace(Path(path))  # what is to be said of its kind is among the remarks of loading
    sent = _Sent(workload, trace)
    adapters = Adapters(workload.seed, plan)
    for requests in _evenly(map(sent.requests, trace.columns(on_remark)), part):
        yield requests if (requests.adapter >= 0).any() else adapters.chosen(requests)


class _Sent:
    """When the requests of a trace are sent."""

    def __init__(self, workload: Serve, trace: Trace) -> None:
        self._arrival = workload.arrival
        self._own_times = workload.arrival.process == "trace"
        self._arrivals = Arrivals(workload.arrival, stream(workload.seed, ARRIVALS))
        self._slower = _stretch(workload.arrival, trace) if self._own_times else 1.0

    def requests(self, columns: Columns) -> Requests:
        """Return the requests of some rows."""
        kept = {name: columns[name] for name in COLUMNS if name in columns}
        count = columns["prompt_tokens"].size
        if self._own_times:
            kept["arrival_s"] = self._slower * columns.get("arrival_s", np.zeros(count))
        else:
            kept["arrival_s"] = self._arrivals.next(count)
        if self._arrival.think_time_s:
            kept["think_s"] = np.full(count, self._arrival.think_time_s)
        return Requests(**kept)


def _stretch(arrival: Arrival, trace: Trace) -> float:
    """What the times of a trace are multiplied by for the stated mean rate: its requests over the time they came in.

    The trace is read once for that.
    """
    if arrival.rate is None:
        return 1.0
    count, first, last = 0, 0.0, 0.0
    for columns in trace.columns():
        times = columns.get("arrival_s", np.zeros(1))
        first = first if count else float(times[0])
        last = float(times[-1])
        count += columns["prompt_tokens"].size
    if last == first:
        raise InputError(
            f"workload.arrival.rate is {arrival.rate:g}, but all requests of {trace.path} arrive at one time; allowed: "
            "a trace with times, or workload.arrival.process poisson, gamma or constant"
        )
    return (count - 1) / (last - first) / arrival.rate


def _evenly(blocks: Iterable[Requests], part: int) -> Iterator[Requests]:
    """The same requests in parts of one size."""
    ready: list[Requests] = []
    for block in blocks:
        ready.append(block)
        if sum(map(len, ready)) >= part:
            whole = joined(ready)
            cut = len(whole) // part * part
            yield from (whole[begin : begin + part] for begin in range(0, cut, part))
            ready = [whole[cut:]]
    if ready and len(rest := joined(ready)):
        yield rest
