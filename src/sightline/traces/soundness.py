"""What a profiler writes and no device does: kernels that outlast their stream, and launches that ran no kernel."""

from dataclasses import replace

import numpy as np

from sightline.quantities import SECONDS, counted, format_quantity
from sightline.traces.events import ON_DEVICE, Flags, Kind, Trace
from sightline.traces.step_edges import launching_calls, named_steps

_EARLY_NS = 50_000
"""By so much a kernel may begin before the end of the one before it: a dependent launch runs its first lines early."""
_ROUNDED_NS = 2_000
"""The same where it also ends before: old traces have whole microseconds."""


def sound(trace: Trace) -> Trace:
    """Return a trace without its impossible kernels; they are named, and steps know which of them they concern."""
    if trace.is_predicted or not trace.has_device:
        return trace
    events, outlasting = trace.events, _outlasting(trace)
    calls = launching_calls(trace)
    launches = (events.kind == Kind.CALL) & (events.correlation >= 0) & trace.matching(lambda name: "Launch" in name)
    # A call of which no kernel is known anywhere, such as of a graph, is one that the profiler does not follow.
    launches &= np.isin(events.name, events.name[calls[calls >= 0]])
    ran = np.isin(np.arange(len(events)), calls)
    warnings = list(trace.warnings)
    if outlasting.any():
        longest = int(np.argmax(np.where(outlasting, events.end - events.start, 0)))
        lasts = format_quantity(float(events.end[longest] - events.start[longest]) / 1e9, SECONDS)
        warnings.append(
            f"'{trace.path}' holds {counted(int(outlasting.sum()), 'kernel')} that cannot be: longer than until the "
            f"next one of the stream, or than the trace, such as {lasts} of '{trace.names[events.name[longest]][:60]}'"
        )
    return replace(
        trace,
        events=events.where(~outlasting),
        warnings=warnings,
        impossible=events.start[outlasting],
        launches=events.start[launches],
        dropped=events.start[launches & ~ran],
    )


def _outlasting(trace: Trace) -> Flags:
    """Which kernels run on while the next one of their stream does, or after all that is recorded of the host."""
    events, result = trace.events, np.zeros(len(trace.events), bool)
    device = np.isin(events.kind, ON_DEVICE)
    places = np.flatnonzero(device)
    places = places[np.argsort(events.thread[places], kind="stable")]
    start, end, thread, call = (
        column[places] for column in (events.start, events.end, events.thread, events.correlation)
    )
    # Kernels of one launch of a graph may run side by side.
    begins = np.append(True, (thread[1:] != thread[:-1]) | (call[1:] != call[:-1]) | (call[1:] < 0))
    following = np.append(np.flatnonzero(begins)[1:], 0)[np.cumsum(begins) - 1]
    is_last = (thread[following] != thread) | (following == 0)
    over = end - start[following]
    overlaps = (over > _EARLY_NS) | ((over > _ROUNDED_NS) & (end > end[following]))
    until = int(events.end[~device & (events.kind != Kind.DEVICE_ANNOTATION)].max(initial=0))
    steps = named_steps(trace)
    window = int((events.end - events.start)[steps].max()) if steps.any() else until
    # What the host launches last may well end after it.
    outlives = (end > until) & (end - start > window) & (until - start > _EARLY_NS)
    result[places] = np.where(is_last, outlives, overlaps)
    return result
