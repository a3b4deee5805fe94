"""Loads that are served: one load, one at the highest rate that keeps its objective, or several."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sightline.answers import labels, summary, units
from sightline.answers.outline import BAD, FAINT, GOOD, PERHAPS, Charts, Lines, Outline, Part, Rows, Said, Section
from sightline.answers.profile import label_of, profile_outline
from sightline.answers.several import profiles_outline, table_of
from sightline.profile import Profile
from sightline.profile.metrics import metric_of
from sightline.quantities import percent
from sightline.simulation.capacity import Capacity

_CURVE = ("throughput-latency",)
_BEYOND, _LEAST_POINTS = 2, 3
"""Points of the curve beyond the highest rate that keeps the objective, and of a curve at all."""
Cells = Sequence[Mapping[str, Any]]


def serving_outline(
    answers: Sequence[Profile],
    capacities: Sequence[Capacity] = (),
    cells: Cells = (),
    *,
    think_s: float = 0.0,
    baseline: Profile | None = None,
) -> Outline:
    """Return what is said of loads.

    Args:
        answers: A profile of each load; of a search for the highest rate the one at it.
        capacities: What searches for the highest rate found, of each load.
        cells: Of each load its values of the keys that were swept.
        think_s: Seconds that a user thinks between an answer and the next request.
        baseline: Another load that differences of a single one are told to.
    """
    if len(answers) > 1:
        return replace(profiles_outline(answers, cells), said=list(best_of(answers)))
    found = capacities[0] if capacities else None
    first = list(capacity_lines(found, think_s))
    between = _curve(found) if found else ()
    return profile_outline(answers[0], baseline=baseline, first=first, between=between, start="serve")


def capacity_outline(found: Capacity) -> Outline:
    """Return the highest rate that keeps the objective, and what users wait for at every rate that was tried."""
    title = labels.title(found.tried[0].profile.scenario) if found.tried else "capacity"
    return Outline(title=title, said=list(capacity_lines(found, 0.0)), parts=_curve(found))


def capacity_lines(found: Capacity | None, think_s: float) -> Iterator[Said]:
    """Yield the highest rate with its interval, and how many users that are."""
    if found is None:
        return
    kind = BAD if found.rate is None and not found.unbroken else GOOD if found.rate is not None else PERHAPS
    highest = None if found.rate is None else f"up to {units.digits(found.rate)} requests per second meet the SLO"
    yield Said(asks="capacity", says=highest or found.sentence, kind=kind)
    if found.interval is not None:
        yield Said(asks="80 % interval", says=f"{units.span(*found.interval, '')}/s")
    if (users := found.users(think_s)) is not None:
        thinking = f" with {units.seconds(think_s)} between requests" if think_s else " with no time between requests"
        yield Said(asks="users", says=f"{users:,} users{thinking}")


def best_of(answers: Sequence[Profile]) -> Iterator[Said]:
    """Yield which of several loads keep their objective, and which of them answers the most requests."""
    judged = [one for one in answers if one.good_share is not None and one.scenario.workload.slo is not None]
    if not judged:
        return
    kept = [one for one in judged if summary.keeps_slo(one)]
    says = f"met by {len(kept):,} of {len(judged):,} loads"
    yield Said(asks="objective", says=says, kind=GOOD if kept else BAD)
    if kept:
        best = max(kept, key=lambda one: float(one.requests_per_s))
        label = labels.variant_labels([one.scenario for one in answers])[list(answers).index(best)]
        yield Said(asks="highest that meets it", says=f"{label}: {' · '.join(summary.speeds(best))}")


def _curve(found: Capacity) -> list[Part]:
    """Times against throughput at the rates that were tried, with what they were in a table."""
    tried = [one.profile for one in found.tried]
    if not tried:
        return []
    # Far beyond its highest rate an engine answers less, and the curve would turn back over itself.
    below = sum(found.rate is None or one.rate <= found.rate for one in found.tried)
    shown = tried[: max(below + _BEYOND, _LEAST_POINTS)]
    label = f"{label_of(shown[-1])} at {len(shown)} rates"
    phrases, table = table_of(tried)
    return [
        Lines(lines=[found.sentence] if found.rate is not None else [], kind=FAINT),
        Charts(answer=shown, label=label, start="curve", names=_CURVE),
        Section(title="All simulated rates", parts=[Lines(lines=phrases), table], is_folded=True, is_detail=True),
    ]


def replay_rows(rows: Sequence[Mapping[str, Any]]) -> Rows:
    """Return every time's mean and percentiles: measured, simulated, and how far apart."""
    return Rows(
        title="Matched requests",
        headings=("time", "", "measured", "simulated", "error"),
        rows=[
            (
                metric_of(row["time"]).spoken,
                row["statistic"],
                units.seconds(row["measured"]),
                units.seconds(row["simulated"]),
                percent(row["error"], 1, signed=True),
            )
            for row in rows
        ],
        numbers=(False, False, True, True, True),
        labels=2,
        grouped=1,
    )
