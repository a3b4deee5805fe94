"""A simulated load as a Chrome trace, for Perfetto (ui.perfetto.dev) or ``chrome://tracing``.

Format: "Trace Event Format" (Google, 2016), JSON object form. Every replica is a process: its iterations are complete
events (``ph: X``), what runs, waits and is cached are counters (``ph: C``), and every request is an asynchronous event
(``ph: b`` and ``e``) from its arrival to its last token, with its queue, prefill and decode inside.
"""

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from sightline.simulation.outcome import COMPLETED, Iterations, Outcome

MOST_ITERATIONS, MOST_REQUESTS = 50_000, 5_000
"""What is drawn at most: beyond it viewers become slow."""
_MICROSECONDS = 1e6
Event: TypeAlias = dict[str, Any]


def serving_trace(outcome: Outcome, about: dict[str, Any]) -> tuple[str, str]:
    """Return the JSON text of a load's trace, and a sentence on what was cut off; empty where nothing was."""
    end_s = _end_s(outcome)
    cut = "" if end_s == np.inf else f"the trace ends after {end_s:.4g} s: it draws {MOST_ITERATIONS:,} iterations"
    cut += f" and {MOST_REQUESTS:,} requests at most" if cut else ""
    events = [*_names(outcome), *_iterations(outcome, end_s), *_requests(outcome, end_s)]
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    head = json.dumps({"displayTimeUnit": "ms", "otherData": about | ({"cut": cut} if cut else {})}, allow_nan=False)
    return f'{head[:-1]}, "traceEvents": [\n{lines}\n]}}\n', cut


def _end_s(outcome: Outcome) -> float:
    """The moment up to which everything is drawn."""
    ends = [np.inf]
    for starts, most in (
        (outcome.iterations.start_s, MOST_ITERATIONS),
        (np.sort(outcome.requests.arrival_s), MOST_REQUESTS),
    ):
        if starts.size > most:
            ends.append(float(starts[most]))
    return min(ends)


def _names(outcome: Outcome) -> Iterator[Event]:
    """Metadata events: the replicas' names and places, and the name of their row."""
    seen = np.concatenate([outcome.replica[outcome.status == COMPLETED], outcome.iterations.replica])
    pools, of_replica = outcome.pools, outcome.pool_of_replica
    for replica in np.unique(seen).tolist():
        shared = {"ph": "M", "pid": replica, "tid": 0}
        does = f" ({name})" if (name := pools[of_replica[replica]].name) else ""
        yield {**shared, "name": "process_name", "args": {"name": f"replica {replica}{does}"}}
        yield {**shared, "name": "process_sort_index", "args": {"sort_index": replica}}
        yield {**shared, "name": "thread_name", "args": {"name": "iterations"}}


def _iterations(outcome: Outcome, end_s: float) -> Iterator[Event]:
    """Each iteration as a slice, and the counters where they change."""
    course, capacity = outcome.iterations, np.maximum(outcome.kv_capacity_tokens, 1)
    last: dict[tuple[int, str], float] = {}
    for i in np.flatnonzero(course.start_s < end_s).tolist():
        replica, start = int(course.replica[i]), _microseconds(course.start_s[i])
        shared = {"pid": replica, "tid": 0, "ts": start}
        yield {**shared, **_slice(course, i), "dur": round(_microseconds(course.end_s[i]) - start, 3)}
        counters = {
            "running": int(course.running[i]),
            "waiting": int(course.waiting[i]),
            "KV cache %": round(100.0 * float(course.kv_tokens[i] / capacity[replica]), 2),
        }
        for name, value in counters.items():
            if last.get((replica, name)) != value:
                last[replica, name] = value
                yield {**shared, "ph": "C", "name": name, "args": {name: value}}


def _slice(course: Iterations, i: int) -> Event:
    """What an iteration is called and what it works on."""
    new, decodes = int(course.prompt_tokens[i]), int(course.decodes[i])
    name = "decode" if not new else "prefill and decode" if decodes else "prefill"
    args = {"prompt_tokens": new, "decodes": decodes, "batch": int(course.running[i])}
    return {"ph": "X", "cat": "iteration", "name": name, "args": args}


def _requests(outcome: Outcome, end_s: float) -> Iterator[Event]:
    """Each completed request from its arrival to its last token, and its phases inside."""
    requests = outcome.requests
    for i in np.flatnonzero((outcome.status == COMPLETED) & (requests.arrival_s < end_s)).tolist():
        shared = {"cat": "request", "id": i, "pid": int(outcome.replica[i]), "tid": 1}
        moments = (requests.arrival_s[i], outcome.scheduled_s[i], outcome.first_token_s[i], outcome.last_token_s[i])
        args = {"prompt_tokens": int(requests.prompt_tokens[i]), "output_tokens": int(requests.output_tokens[i])}
        args["cached_tokens"] = int(outcome.cached_tokens[i])
        begun, queued, first, last = map(_microseconds, moments)
        yield {**shared, "ph": "b", "name": f"request {i}", "ts": begun, "args": args}
        prefilled = sent = first
        if outcome.transfers is not None and outcome.transfers.replica[i] >= 0:
            prefilled, sent = (
                _microseconds(of[i]) for of in (outcome.transfers.prefilled_s, outcome.transfers.ready_s)
            )
        for name, start, end in (
            ("queue", begun, queued),
            ("prefill", queued, prefilled),
            ("transfer", prefilled, sent),
            ("decode queue", sent, first),
            ("decode", first, last),
        ):
            if end > start:
                yield {**shared, "ph": "b", "name": name, "ts": start}
                yield {**shared, "ph": "e", "name": name, "ts": end}
        yield {**shared, "ph": "e", "name": f"request {i}", "ts": last}


def _microseconds(seconds: float) -> float:
    """To the nanosecond."""
    return round(float(seconds) * _MICROSECONDS, 3)
