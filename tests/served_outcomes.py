"""What became of loads, for tests, from few words."""

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np

from sightline.simulation.engine.records import Work, new_records, note_iteration
from sightline.simulation.engine.state import BATCH_DECODES, COUNTS, MANY, RUNNING, WAITING
from sightline.simulation.load import Requests
from sightline.simulation.outcome import COMPLETED, Iterations, Outcome, PoolLimits

EDGES_S = 1e-6 * 1.001 ** np.arange(23_101.0)


def outcome(
    arrival_s: Sequence[float],
    *,
    queue_s: float | Sequence[float] = 0.0,
    prefill_s: float | Sequence[float] = 0.5,
    gap_s: float = 0.01,
    prompt_tokens: int = 100,
    output_tokens: int | Sequence[int] = 11,
    status: Sequence[int] | None = None,
    kv: Sequence[tuple[float, float, int]] = (),
    kv_capacity_tokens: int = 1000,
    replicas: int = 1,
) -> Outcome:
    """Return requests that wait, get a first token and then one in each gap; ``kv`` has iterations and their tokens."""
    arrival = np.asarray(arrival_s, np.float64)
    n = arrival.size
    output = np.broadcast_to(np.asarray(output_tokens, np.int64), n).copy()
    scheduled = arrival + queue_s
    first = scheduled + prefill_s
    counts = np.zeros(EDGES_S.size - 1, np.int64)
    ended = np.zeros(n, np.int64) if status is None else np.asarray(status, np.int64)
    counts[np.searchsorted(EDGES_S, gap_s, side="right") - 1] = int((output - 1)[ended == COMPLETED].sum())
    pools = (PoolLimits(kv_capacity_tokens=kv_capacity_tokens, replicas=replicas),)
    nothing = np.zeros(len(kv), np.int64)
    iterations = Iterations(
        start_s=np.array([start for start, _, _ in kv], np.float64),
        end_s=np.array([end for _, end, _ in kv], np.float64),
        replica=nothing,
        prompt_tokens=nothing + 1,
        decodes=nothing,
        running=nothing + 1,
        waiting=nothing,
        kv_tokens=np.array([tokens for _, _, tokens in kv], np.int64),
    )
    return Outcome(
        requests=Requests(arrival_s=arrival, prompt_tokens=np.full(n, prompt_tokens), output_tokens=output),
        scheduled_s=scheduled,
        first_token_s=first,
        last_token_s=first + (output - 1) * gap_s,
        cached_tokens=np.full(n, prompt_tokens // 4),
        preemptions=np.zeros(n, np.int64),
        replica=np.zeros(n, np.int64),
        status=ended,
        course=lambda: iterations,
        work=work_of(iterations, pools[0]),
        gap_counts=counts,
        gap_edges_s=EDGES_S,
        pools=pools,
    )


def work_of(rows: Iterations, limits: PoolLimits, **facts: int) -> Work:
    """Return what iterations of one pool come to; ``facts`` limit what they take."""
    records, counts = new_records(0, 0, 1), np.zeros(COUNTS, np.int64)
    rules = {"block_tokens": 1, "max_sequences": MANY, "token_budget": MANY, "pass_tokens": 1, **facts}
    of = SimpleNamespace(blocks=limits.kv_capacity_tokens, **rules)
    plain = records._replace(work=records.work._replace(sums=records.work.sums.view(np.recarray)))
    columns = (rows.decodes, rows.running, rows.waiting, rows.start_s, rows.end_s, rows.prompt_tokens, rows.kv_tokens)
    for decodes, running, waiting, *row in zip(*columns, strict=True):
        counts[[BATCH_DECODES, RUNNING, WAITING]] = decodes, running, waiting
        note_iteration.py_func(plain, counts, of, 0.0, 0, *row)
    return records.work
