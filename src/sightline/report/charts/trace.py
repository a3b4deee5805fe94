"""A predicted step as a Chrome trace, for Perfetto (ui.perfetto.dev) or ``chrome://tracing``.

Format: "Trace Event Format" (Google, 2016), JSON object form: complete events (``ph: X``) with microseconds, and
metadata events that name the rows. Every pipeline stage is a process with one row; a row never overlaps itself.
"""

import json
from collections.abc import Sequence
from typing import Any

from sightline.prediction.schedules.orders import BACKWARD, FORWARD, WEIGHT
from sightline.prediction.schedules.simulation import TRANSFER, Span
from sightline.prediction.schedules.timeline import HOST, OMITTED, ONCE, drawn_micro_batches, timeline
from sightline.profile import Profile

COLORS = {
    FORWARD: "thread_state_running",
    BACKWARD: "rail_response",
    WEIGHT: "thread_state_runnable",
    TRANSFER: "thread_state_iowait",
    OMITTED: "generic_work",
    **dict.fromkeys(ONCE.values(), "thread_state_iowait"),
    "optimizer": "rail_animation",
    HOST: "grey",
}
"""Reserved colors of ``chrome://tracing`` by kind of span; Perfetto colors events by their names without numbers."""
_MICROSECONDS = 1e6


def chrome_trace(profile: Profile) -> str:
    """Return the JSON text of a predicted step's trace."""
    scenario = profile.scenario
    in_step = int(profile.micro_batches or 1)
    drawn = drawn_micro_batches(scenario, in_step)
    about = {
        "scenario": scenario.name,
        "source": f"sightline, {profile.source}",
        "step_time_s": float(profile.step_time_s),
        "micro_batches": in_step,
        "micro_batches_drawn": drawn,
    }
    return trace_text(timeline(profile), about, in_step - drawn)


def trace_text(spans: Sequence[Span], about: dict[str, Any], omitted: int = 0) -> str:
    """Return the JSON text of ``spans``, one event a line, with ``about`` as the file's metadata."""
    stages = max((span.stage for span in spans), default=0) + 1
    events = [event for stage in range(stages) for event in _names(stage, stages)]
    events += [_event(span, omitted) for span in sorted(spans, key=lambda span: (span.start_s, span.stage))]
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    head = json.dumps({"displayTimeUnit": "ms", "otherData": about}, allow_nan=False)
    return f'{head[:-1]}, "traceEvents": [\n{lines}\n]}}\n'


def _names(stage: int, stages: int) -> list[dict[str, Any]]:
    """Metadata events: a stage's name, its place among the others, and the name of its row."""
    shared = {"ph": "M", "pid": stage, "tid": 0}
    name = f"stage {stage}" if stages > 1 else "device"
    return [
        {**shared, "name": "process_name", "args": {"name": name}},
        {**shared, "name": "process_sort_index", "args": {"sort_index": stage}},
        {**shared, "name": "thread_name", "args": {"name": "step"}},
    ]


def _event(span: Span, omitted: int) -> dict[str, Any]:
    """A complete event; to the nanosecond, and ends rounded rather than lengths so that neighbours never overlap."""
    start, end = (round(seconds * _MICROSECONDS, 3) for seconds in (span.start_s, span.end_s))
    args: dict[str, Any] = {"stage": span.stage}
    name = span.kind
    if span.micro_batch is not None:
        name = f"{span.kind} {span.micro_batch}"
        args |= {"micro_batch": span.micro_batch, "chunk": span.chunk}
    elif span.kind == OMITTED:
        name = f"{omitted} more micro-batches, not drawn one by one"
        args["micro_batches"] = omitted
    return {
        "name": name,
        "cat": span.kind,
        "ph": "X",
        "pid": span.stage,
        "tid": 0,
        "ts": start,
        "dur": round(end - start, 3),
        "cname": COLORS[span.kind],
        "args": args,
    }
