"""The same load drawn again with other random numbers: how far a run's figures are off by chance.

That is said of any load, whether its queue keeps its length or grows, and of any figure. A single run that is shorter
than its queue's memory cannot say it (independent replications: Law, Simulation Modeling and Analysis, 9.4).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.profile.results import flatten
from sightline.scenario import ServingScenario, Slo
from sightline.simulation.results.correlation import student
from sightline.simulation.results.figures import percentiles_of
from sightline.simulation.results.intervals import Interval, too_few

DRAWS = 8
"""Further loads: as many as tell the spread of figures to a fourth of it."""
MOST_REQUESTS = 8_000
"""Of a load that is drawn again; a longer one says by itself how much its parts differ."""
STRIDE = 1_000_003
"""Between seeds, so that seeds near the stated one share no load with it."""


def drawn_again(scenario: ServingScenario) -> Iterator[ServingScenario]:
    """Yield the question with further loads of the same kind; none of a trace, nor of a long load."""
    workload = scenario.workload
    if workload.requests is None or workload.requests.count > MOST_REQUESTS:
        return
    for draw in range(1, DRAWS + 1):
        yield replace(scenario, workload=replace(workload, seed=workload.seed + draw * STRIDE))


def intervals_of_draws(
    figures: Mapping[str, Any], others: Sequence[Mapping[str, Any]], slo: Slo | None = None
) -> dict[str, Interval]:
    """Return 80 % intervals of figures by what the same load came to when it was drawn again.

    The spread is that of logarithms. A percentile beyond which no request lies has no upper end.
    """
    if not others:
        return {}
    open_ended = too_few(figures["completed"], percentiles_of(slo))
    found: dict[str, Interval] = {}
    drawn = [flatten(other) for other in others]
    for key, value in flatten(figures).items():
        values = [value, *(other.get(key) for other in drawn)]
        if not all(isinstance(one, float) and one > 0 for one in values):
            continue
        factor = float(np.exp(student(len(others)) * np.log(values).std(ddof=1)))
        found[key] = value / factor, None if key.rpartition(".")[2] in open_ended else value * factor
    return found
