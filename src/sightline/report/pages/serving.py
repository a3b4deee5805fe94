"""The page of loads that are served: one load, one at the highest rate that keeps its objective, or a curve."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sightline.profile import Profile
from sightline.report import labels, pieces, summary, units
from sightline.report.pages.charts import charts_piece
from sightline.report.pages.profile import label_of, profile_piece
from sightline.report.pages.profiles import profiles_piece, table_of
from sightline.report.pieces import BAD, GOOD, PERHAPS, Piece, Said
from sightline.simulation.capacity import Capacity

_CURVE = ("throughput-latency",)
_BEYOND, _LEAST_POINTS = 2, 3
"""Points of the curve beyond the highest rate that keeps the objective, and of a curve at all."""
Cells = Sequence[Mapping[str, Any]]


def serving_piece(
    answers: Sequence[Profile],
    capacities: Sequence[Capacity] = (),
    cells: Cells = (),
    *,
    think_s: float = 0.0,
    tools: Piece | str = "",
) -> Piece:
    """Return what stands on the page of loads.

    Args:
        answers: A profile of each load; of a search for the highest rate the one at it.
        capacities: What searches for the highest rate found, of each load.
        cells: Of each load its values of the keys that were swept.
        think_s: Seconds that a user thinks between an answer and the next request.
        tools: What stands below the answer.
    """
    if len(answers) > 1:
        return pieces.joined(pieces.short_answer(best_of(answers)), tools, profiles_piece(answers, cells))
    found = capacities[0] if capacities else None
    first = [*objective(answers[0], found), *capacity_lines(found, think_s)]
    curve = _curve(found) if found else Piece()
    return profile_piece(answers[0], "serve", charts=8, between=pieces.joined(tools, curve), first=first)


def objective(profile: Profile, found: Capacity | None) -> Iterator[Said]:
    """Yield whether a load keeps its objective; nothing where it has none, or where its highest rate was searched."""
    kept, slo = profile.good_share, profile.scenario.workload.slo
    if kept is None or slo is None or (found is not None and found.rate is not None):
        return
    share = units.percent(kept)
    verdict = "met" if summary.keeps_slo(profile) else "missed"
    says = f"{verdict}: {share} of the requests meet every limit, {float(slo.percentile):g} % required"
    yield Said(asks="objective", says=says, kind=GOOD if summary.keeps_slo(profile) else BAD)


def capacity_lines(found: Capacity | None, think_s: float) -> Iterator[Said]:
    """Yield the highest rate with its interval, and how many users that are."""
    if found is None:
        return
    kind = BAD if found.rate is None and not found.unbroken else GOOD if found.rate is not None else PERHAPS
    highest = None if found.rate is None else f"up to {units.digits(found.rate)} requests per second meet the SLO"
    yield Said(asks="capacity", says=highest or found.sentence, kind=kind)
    if found.interval is not None:
        low, high = found.interval
        ends = f"{units.digits(low)}/s or more" if high is None else f"{units.digits(low)} to {units.digits(high)}/s"
        yield Said(asks="80 % interval", says=ends)
    if (users := found.users(think_s)) is not None:
        thinking = f" with {units.seconds(think_s)} between requests" if think_s else (" with no time between requests")
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


def _curve(found: Capacity) -> Piece:
    """Times against throughput at the rates that were tried, with what they were in a table."""
    tried = [one.profile for one in found.tried]
    if not tried:
        return Piece()
    # Far beyond its highest rate an engine answers less, and the curve would turn back over itself.
    below = sum(found.rate is None or one.rate <= found.rate for one in found.tried)
    shown = tried[: max(below + _BEYOND, _LEAST_POINTS)]
    drawn = charts_piece(shown, f"{label_of(shown[-1])} at {len(shown)} rates", "curve", names=_CURVE)
    said = pieces.paragraphs([found.sentence] if found.rate is not None else [], pieces.FAINT)
    return pieces.joined(said, drawn, pieces.folded("All simulated rates", table_of(tried)))
