"""A simulated load as a Chrome trace: a process per replica, its iterations with what is inside, and its requests."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from sightline.chrome import trace_events
from sightline.chrome.trace_events import (
    COMPUTE,
    LAYERS_SEND,
    Event,
    asynchronous,
    counter,
    kernel_name,
    slice_of,
    trace_text,
)
from sightline.profile import Profile
from sightline.simulation.outcome import COMPLETED, Outcome
from sightline.simulation.results.iterations import HOST, Piece, iteration_parts, kinds_of
from sightline.simulation.server import server_of

MOST_ITERATIONS, MOST_REQUESTS = 50_000, 5_000
"""What is drawn at most: beyond it viewers become slow."""
MOST_EVENTS = 100_000
"""Slices inside of iterations."""
SHARES = "each as a share of the mean iteration; prompts and decoding sequences share most kernels"
"""What the modules inside of an iteration are."""
ROWS = {COMPUTE: "iterations", LAYERS_SEND: "communication", trace_events.HOST: "host"}
Inside = Mapping[tuple[int, str], Sequence[Piece]]
"""Pieces of an iteration by the number of its replica's pool and its kind."""


def load_trace(profile: Profile) -> tuple[str, str]:
    """Return `serving_trace` of a simulated load with rows, and what is inside of its iterations as predicted."""
    return serving_trace(profile.outcome, {"scenario": profile.scenario.name, "source": "sightline"}, _insides(profile))


def serving_trace(outcome: Outcome, about: dict[str, Any], inside: Inside | None = None) -> tuple[str, str]:
    """Return the JSON text of a load's trace, and a sentence on what was left out; empty where nothing was.

    Args:
        outcome: With a row for each request and iteration.
        about: The file's metadata.
        inside: Of the mean iteration of each kind. Iterations are drawn with them from the first on, as far as
            `MOST_EVENTS` allows; without them they have nothing inside.
    """
    end_s = _end_s(outcome)
    drawn = np.flatnonzero(outcome.iterations.start_s < end_s)
    detailed = _detailed(outcome, drawn, inside or {})
    said = "" if end_s == np.inf else f"the trace ends after {end_s:.4g} s: at most {MOST_ITERATIONS:,} iterations"
    said += f" and {MOST_REQUESTS:,} requests are drawn" if said else ""
    if inside and detailed < drawn.size:
        said += "; " if said else ""
        said += f"modules are drawn for the first {detailed:,} of {drawn.size:,} iterations"
    about = about | {"iterations": int(drawn.size), "iterations_with_modules": detailed}
    about |= {"modules": SHARES} if detailed else {}
    found = [*_iterations(outcome, drawn, detailed, inside or {}), *_requests(outcome, end_s)]
    return trace_text(_names(outcome), found, about | ({"cut": said} if said else {}), ROWS), said


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


def _detailed(outcome: Outcome, drawn: "np.ndarray[Any, Any]", inside: Inside) -> int:
    """How many of the iterations that are drawn show what is inside."""
    if not inside:
        return 0
    course, of_replica = outcome.iterations, outcome.pool_of_replica
    kinds, pools = kinds_of(course)[drawn], of_replica[course.replica[drawn]]
    # Two more: the parts around the modules.
    slices = [len(inside.get((pool, kind), ())) + 2 for pool, kind in zip(pools.tolist(), kinds.tolist(), strict=True)]
    return int(np.searchsorted(np.cumsum(slices), MOST_EVENTS, side="right"))


def _names(outcome: Outcome) -> dict[int, str]:
    """Replicas that did something, and what they are called."""
    seen = np.concatenate([outcome.replica[outcome.status == COMPLETED], outcome.iterations.replica])
    pools, of_replica = outcome.pools, outcome.pool_of_replica
    does = {one: pools[of_replica[one]].name for one in np.unique(seen).tolist()}
    return {one: f"replica {one} ({name})" if name else f"replica {one}" for one, name in does.items()}


def _iterations(outcome: Outcome, drawn: "np.ndarray[Any, Any]", detailed: int, inside: Inside) -> Iterator[Event]:
    """Each iteration as a slice, what is inside of it, and the counters where they change."""
    course, capacity = outcome.iterations, np.maximum(outcome.kv_capacity_tokens, 1)
    of_replica, kinds = outcome.pool_of_replica, kinds_of(course)
    last: dict[tuple[int, str], float] = {}
    for place, i in enumerate(drawn.tolist()):
        replica, kind = int(course.replica[i]), str(kinds[i])
        start_s, end_s = float(course.start_s[i]), float(course.end_s[i])
        works_on = {"prompt_tokens": int(course.prompt_tokens[i]), "decodes": int(course.decodes[i])}
        args = {**works_on, "batch": int(course.running[i])}
        yield slice_of(kind, "iteration", replica, COMPUTE, start_s, end_s, **args)
        if place < detailed:
            yield from _inside(inside.get((int(of_replica[replica]), kind), ()), replica, start_s, end_s)
        counters = {
            "running": int(course.running[i]),
            "waiting": int(course.waiting[i]),
            "KV cache %": round(100.0 * float(course.kv_tokens[i] / capacity[replica]), 2),
        }
        for name, value in counters.items():
            if last.get((replica, name)) != value:
                last[replica, name] = value
                yield counter(name, replica, start_s, **{name: value})


def _inside(pieces: Sequence[Piece], replica: int, start_s: float, end_s: float) -> Iterator[Event]:
    """The pieces one after the other; each part of a mixed iteration encloses its own."""
    at_s, scale = start_s, end_s - start_s
    is_mixed = len({piece.part for piece in pieces} - {HOST}) > 1
    for part, own in groupby(pieces, key=lambda piece: piece.part):
        begun_s, inside = at_s, list[Event]()
        for piece in own:
            until_s = end_s if piece is pieces[-1] else min(at_s + piece.share * scale, end_s)
            if part == HOST:
                name, cat, row, args = "host: scheduling and launches", "host", trace_events.HOST, {}
            elif piece.is_communication:
                name, cat, row = kernel_name(piece.name, is_communication=True), "communication", LAYERS_SEND
                args = {"module": piece.module}
            else:
                name, cat, row, args = piece.name, "module", COMPUTE, {}
            inside.append(slice_of(name, cat, replica, row, at_s, until_s, **args))
            at_s = until_s
        if is_mixed and part != HOST:
            yield slice_of(part, "part", replica, COMPUTE, begun_s, at_s)
        yield from inside


def _requests(outcome: Outcome, end_s: float) -> Iterator[Event]:
    """Each completed request from its arrival to its last token, and its phases inside."""
    requests, transfers = outcome.requests, outcome.transfers
    for i in np.flatnonzero((outcome.status == COMPLETED) & (requests.arrival_s < end_s)).tolist():
        moments = (requests.arrival_s[i], outcome.scheduled_s[i], outcome.first_token_s[i], outcome.last_token_s[i])
        begun_s, queued_s, first_s, last_s = map(float, moments)
        args = {"prompt_tokens": int(requests.prompt_tokens[i]), "output_tokens": int(requests.output_tokens[i])}
        args["cached_tokens"] = int(outcome.cached_tokens[i])
        prefilled_s = sent_s = first_s
        if transfers is not None and transfers.replica[i] >= 0:
            prefilled_s, sent_s = float(transfers.prefilled_s[i]), float(transfers.ready_s[i])
        phases = (
            ("queue", begun_s, queued_s),
            ("prefill", queued_s, prefilled_s),
            ("transfer", prefilled_s, sent_s),
            ("decode queue", sent_s, first_s),
            ("decode", first_s, last_s),
        )
        replica = int(outcome.replica[i])
        begin, end = asynchronous(f"request {i}", "request", i, replica, begun_s, last_s, **args)
        yield begin
        for name, from_s, to_s in phases:
            if to_s > from_s:
                yield from asynchronous(name, "request", i, replica, from_s, to_s)
        yield end


def _insides(profile: Profile) -> Inside:
    """What is inside of the iterations, as the scenario's replicas are predicted."""
    outcome = profile.outcome
    course, kinds = outcome.iterations, kinds_of(outcome.iterations)
    pools = outcome.pool_of_replica[course.replica] if course.start_s.size else course.replica
    found = {}
    for number, of in enumerate(server_of(profile.scenario).pools):
        for kind in np.unique(kinds[pools == number]).tolist():
            chosen = (pools == number) & (kinds == kind)
            found[number, kind] = iteration_parts(of.worker, of.constants, outcome, chosen)
    return found
