"""How long the requests of a load are in the mean."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from sightline.simulation.requests import Requests

MOST = 1 << 20
"""Requests that a mean is of at most: more hardly change it."""


class MeanLengths(NamedTuple):
    """Means over the requests of a load, as they are sent: the prompt of a later turn begins with the earlier ones."""

    prompt_tokens: float = 1.0
    output_tokens: float = 1.0
    prefix_tokens: float = 0.0
    """At the beginning of a prompt, that others may have too."""
    requests_per_s: float = 0.0
    """Arrivals per second between the first and the last one; 0 where all come at once."""


def mean_lengths(load: Iterable[Requests]) -> MeanLengths:
    """Return the mean lengths of a load, of a very long one those of its beginning; of an empty one a token each."""
    count, prompt, output, prefix, first_s, last_s = 0, 0, 0, 0, 0.0, 0.0
    for part in load:
        if not len(part):
            continue
        first_s = first_s if count else float(part.arrival_s[0])
        count += len(part)
        prompt += int(part.prompt_tokens.sum())
        output += int(part.output_tokens.sum())
        prefix += int(np.minimum(part.prefix_tokens, part.prompt_tokens - 1).sum())
        last_s = float(part.arrival_s[-1])
        if count >= MOST:
            break
    if not count:
        return MeanLengths()
    rate = (count - 1) / (last_s - first_s) if last_s > first_s else 0.0
    return MeanLengths(max(prompt / count, 1.0), max(output / count, 1.0), prefix / count, rate)
