"""A file that holds several devices: each of them is a rank of the job."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sightline.traces.events import ON_DEVICE, Trace

_LEAST = 0.05
"""Share of the busiest device's work from which on a device is one of the job's."""


def by_device(trace: Trace) -> Iterator[Trace]:
    """Yield a trace for each device that works in it, with all that the host does, and the device's number as rank.

    A device that hardly works, such as one on which only a context was made, is left out.
    """
    events = trace.events
    on_device = np.isin(events.kind, ON_DEVICE)
    numbers, place = np.unique(events.device[on_device], return_inverse=True)
    busy = (
        np.bincount(place.reshape(-1), weights=(events.end - events.start)[on_device]) if len(numbers) else np.zeros(0)
    )
    working = numbers[busy >= _LEAST * busy.max()].tolist() if len(numbers) else []
    if len(working) < 2:
        yield trace
        return
    listed = ", ".join(map(str, working))
    remark = f"'{trace.path}' holds devices {listed}; each counts as a rank"
    for first, device in enumerate(working):
        own = events.where(~on_device | (events.device == device))
        yield replace(trace, events=own, rank=int(device), warnings=[*trace.warnings, remark] if not first else [])
