"""What a simulation writes down: requests that ended, iterations where asked for, and what all of them come to."""

from math import log, log1p
from typing import Any, Final, NamedTuple

import numpy as np

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.state import BATCH_DECODES, POOL, READY, RUNNING, WAITING, Facts, record
from sightline.simulation.load import Floats, Integers
from sightline.simulation.rows import bundle

GAP_WIDTH: Final = 0.001
"""Relative width of a bin of times between tokens."""
LEAST_GAP_S: Final = 1e-6
GAP_BINS: Final = 23_100
"""Bins from `LEAST_GAP_S` to about 10,000 s."""
_PER_BIN = log1p(GAP_WIDTH)


ENDED_REQUEST: Final = record(
    "request cached preemptions replica prefilled_by status slot",
    "arrival_s scheduled_s prefilled_s ready_s first_s last_s",
)
"""A request that completed or was refused; ``slot`` is where it stood."""
ITERATION: Final = np.dtype(
    [(name, np.int32) for name in ("replica", "prompt_tokens", "decodes", "running", "waiting", "kv_blocks")]
    + [(name, np.float64) for name in ("start_s", "end_s")],
    align=True,
)
"""An iteration; there are many, so that counts are short."""

RESUMED: Final = record("request replica", "from_s to_s")
"""A request that had tokens when it was put off: its last token before, and the next one."""

# Rows written, in `Records.rows`.
REQUESTS: Final = 0
ITERATIONS: Final = 1
RESUMPTIONS: Final = 2


WORK: Final = record(
    "iterations prompt_tokens decodes most_running most_kv_tokens",
    "seconds context_tokens waiting_s cache_full_s sequences_full_s budget_full_s kv_token_s",
)
"""Sums over iterations. ``context_tokens``: tokens in use per running sequence. ``waiting_s``: seconds of those with
requests waiting after scheduling; of these, ``cache_full_s``: running requests hold the KV cache,
``sequences_full_s``: as many requests run as may, ``budget_full_s``: the iteration has as many tokens as it may.
``kv_token_s``: tokens of the cache in use, times seconds."""
CACHE_FULL: Final = 0.95
"""Share of the KV cache from which it counts as full."""
MOMENTS: Final = 400
"""Moments of a run at most; at least half as many, once it has lasted `FIRST_S` times as many."""
FIRST_S: Final = 1e-3
"""Seconds of a moment, to begin with."""
MOMENT_S: Final = 0
"""In `Work.clocks`: seconds of a moment."""
END: Final = 1
"""In `Work.clocks`: when the last iteration ended."""


@bundle
class Work(NamedTuple):
    """What all iterations so far come to."""

    sums: Any
    """Of `WORK`: by pool, of iterations that only decode and of those with prompts."""
    moments: Floats
    """Running and waiting requests and tokens in use, times seconds, of all replicas, by moments of equal length."""
    clocks: Floats


def new_work(pools: int) -> Work:
    """Return the sums of no iterations."""
    return Work(np.zeros((pools, 2), WORK), np.zeros((3, MOMENTS)), np.array([FIRST_S, 0.0]))


@bundle
class Records(NamedTuple):
    """What was written down since it was last read, and what all of it comes to."""

    rows: Integers
    ended: Any
    """Of `ENDED_REQUEST`, in the order in which requests ended."""
    log: Any
    """Of `ITERATION`; with no room at all none are written."""
    resumed: Any
    """Of `RESUMED`."""
    gaps: Integers
    """Times between tokens, by bin."""
    work: Work


def new_records(requests: int, iterations: int, pools: int) -> Records:
    """Return records with room for so many rows."""
    gaps = np.zeros(GAP_BINS, np.int64)
    tables = np.zeros(requests, ENDED_REQUEST), np.zeros(iterations, ITERATION), np.zeros(requests, RESUMED)
    return Records(np.zeros(3, np.int64), *tables, gaps, new_work(pools))


@compiled
def note_iteration(
    records: Records,
    counts: Integers,
    facts: Facts,
    request_s: float,
    number: int,
    begin_s: float,
    end_s: float,
    prompt_tokens: int,
    kv_blocks: int,
) -> None:
    """Note an iteration of replica ``number``; moments become twice as long where these are too few.

    ``counts`` are the replica's, and ``request_s`` the seconds that pass before its queue.
    """
    decodes, running = counts[BATCH_DECODES], counts[RUNNING]
    waiting = counts[WAITING] + counts[READY]
    begin_s, end_s = begin_s + request_s, end_s + request_s
    if records.log.size > 0:
        row = records.log[records.rows[ITERATIONS]]
        row.start_s, row.end_s, row.replica = begin_s, end_s, number
        row.prompt_tokens, row.decodes = prompt_tokens, decodes
        row.running, row.waiting, row.kv_blocks = running, waiting, kv_blocks
        records.rows[ITERATIONS] += 1
    work, seconds, kv_tokens = records.work, end_s - begin_s, kv_blocks * facts.block_tokens
    sums = work.sums[counts[POOL], int(prompt_tokens > 0)]
    sums.iterations += 1
    sums.seconds += seconds
    sums.prompt_tokens += prompt_tokens
    sums.decodes += decodes
    sums.context_tokens += kv_tokens / max(running, 1)
    sums.kv_token_s += kv_tokens * seconds
    sums.most_running = max(sums.most_running, running)
    sums.most_kv_tokens = max(sums.most_kv_tokens, kv_tokens)
    if waiting > 0:
        sums.waiting_s += seconds
        if kv_tokens >= CACHE_FULL * facts.blocks * facts.block_tokens:
            sums.cache_full_s += seconds
        if running >= facts.max_sequences:
            sums.sequences_full_s += seconds
        if prompt_tokens + facts.pass_tokens * decodes >= facts.token_budget:
            sums.budget_full_s += seconds
    moments, clocks = work.moments, work.clocks
    clocks[END] = max(clocks[END], end_s)
    while end_s > MOMENTS * clocks[MOMENT_S]:
        clocks[MOMENT_S] *= 2.0
        for row in range(3):
            for i in range(MOMENTS):
                both = moments[row, 2 * i] + moments[row, 2 * i + 1] if i < MOMENTS // 2 else 0.0
                moments[row, i] = both
    at_s = max(begin_s, 0.0)
    i = min(int(at_s / clocks[MOMENT_S]), MOMENTS - 1)
    while at_s < end_s:
        until_s = min((i + 1) * clocks[MOMENT_S], end_s) if i < MOMENTS - 1 else end_s
        moments[0, i] += running * (until_s - at_s)
        moments[1, i] += waiting * (until_s - at_s)
        moments[2, i] += kv_tokens * (until_s - at_s)
        at_s, i = max(at_s, until_s), i + 1


@compiled
def note_gaps(gaps: Integers, seconds: float, count: int) -> None:
    """Count times between tokens."""
    if count > 0:
        at = int(log(max(seconds, LEAST_GAP_S) / LEAST_GAP_S) / _PER_BIN)
        gaps[min(at, GAP_BINS - 1)] += count


def gap_edges_s() -> Floats:
    """Return the edges of the bins, in seconds."""
    return LEAST_GAP_S * (1.0 + GAP_WIDTH) ** np.arange(GAP_BINS + 1.0)
