"""How far tabulated iteration times are from `iteration_time`: random batches, mixed and pure, asked both ways."""

from collections.abc import Iterator

import numpy as np

from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.iteration import iteration_time
from sightline.prediction.generation.worker import Worker
from sightline.program import Batch, decoding, prompts
from sightline.simulation.requests import Floats, Integers
from sightline.simulation.times.lookup import prompt_attention_seconds, step_seconds
from sightline.simulation.times.packed import PackedTimes, packed
from sightline.simulation.times.tables import IterationTimes, in_loop

MOST_PROMPTS = 3


def table_errors(
    worker: Worker,
    constants: InferenceConstants,
    times: IterationTimes,
    *,
    tokens: int,
    sequences: int,
    context: int,
    batches: int = 400,
    seed: int = 0,
) -> Floats:
    """Return the relative error of the table's seconds for random batches up to the tables' ends, by group.

    Sizes are spread evenly over their logarithms; batches have decoding sequences, up to three prompts, or both.
    """
    random = np.random.default_rng(seed)

    def sizes(low: int, high: int, *shape: int) -> Integers:
        return np.exp(random.uniform(np.log(low), np.log(high + 1), shape)).astype(np.int64)

    n, seen = sizes(1, sequences, batches), sizes(1, context, batches)
    new, cached = sizes(1, tokens // MOST_PROMPTS, MOST_PROMPTS, batches), sizes(1, context, MOST_PROMPTS, batches) - 1
    tables, errors = packed(times), []
    for decodes, count, chosen in _kinds(batches):
        groups = [decoding(1.0 * n[chosen], 1.0 * seen[chosen], times.tokens_per_decode)] * decodes
        groups += [prompts(1.0, 1.0 * new[i, chosen], 1.0 * cached[i, chosen]) for i in range(count)]
        loop = in_loop(constants, ahead=times.ahead)
        asked = iteration_time(worker, Batch.of(*groups), loop, ahead=times.ahead).pass_s
        found = [
            _tabulated(tables, int(n[i]) * decodes, int(seen[i]), new[:count, i], cached[:count, i])
            for i in range(chosen.start, chosen.stop)
        ]
        errors.append(np.array(found) / asked - 1.0)
    return np.concatenate(errors)


def _kinds(batches: int) -> Iterator[tuple[bool, int, slice]]:
    """Whether batches decode, how many prompts they have, and which of them: equal parts of each kind."""
    kinds = [(decodes, count) for decodes in (False, True) for count in range(MOST_PROMPTS + 1) if decodes or count]
    ends = np.linspace(0, batches, len(kinds) + 1).astype(int).tolist()
    for (decodes, count), begin, end in zip(kinds, ends[:-1], ends[1:], strict=True):
        yield decodes, count, slice(begin, end)


def _tabulated(times: PackedTimes, decodes: int, seen: int, new: Integers, cached: Integers) -> float:
    attention_s = sum(prompt_attention_seconds(times, int(q), int(c)) for q, c in zip(new, cached, strict=True))
    return step_seconds(times, decodes, decodes * seen, int(new.sum()), new.size, float(attention_s))
