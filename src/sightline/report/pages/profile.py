"""Everything about one profile: the short answer, figures, charts, tables, evidence and the scenario."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sightline.explanation.answer import Advice
from sightline.loading import to_mapping
from sightline.profile import SERVING, Profile
from sightline.profile.metrics import STATISTICS
from sightline.report import labels, pieces, summary, units
from sightline.report.explained.answer import changed, of_profile
from sightline.report.explained.why import changes_piece
from sightline.report.measured import measured_sentences
from sightline.report.pages.charts import charts_piece
from sightline.report.pieces import BAD, FAINT, Piece, Said


def profile_piece(
    profile: Profile,
    identifier: str,
    *,
    charts: int = 2,
    narrow: bool = True,
    changes: Sequence[Advice] = (),
    level: int = 2,
    between: "Piece | str" = "",
    first: Iterable[Said] = (),
) -> Piece:
    """Return everything about one profile.

    Args:
        profile: Of any task, predicted or measured.
        identifier: The start of the ids of its charts.
        charts: How many of its charts are shown, the ones that say most.
        narrow: Whether its charts have a form for narrow screens.
        changes: What would help it most, best first; the first stands in the short answer.
        level: Of its headings: 2 on a page of its own, 3 inside of a section.
        between: What stands between its key figures and its charts.
        first: Lines of the short answer before its own.
    """
    return pieces.joined(
        pieces.paragraphs(labels.subtitle(profile.scenario), FAINT),
        pieces.short_answer([*first, *short_answer(profile, changes)]),
        _figures(profile),
        between,
        pieces.paragraphs(_sentences(profile, changes)),
        pieces.paragraphs(summary.interval_sentences(profile), FAINT),
        pieces.warned((*profile.scenario.warnings, *profile.warnings)),
        _times(profile),
        charts_piece(profile, label_of(profile), identifier, narrow=narrow, most=charts),
        changes_piece(changes, level=level),
        pieces.section("Time by module and phase", _modules(profile), level=level),
        pieces.section("Memory by pipeline stage", _stages(profile), level=level),
        pieces.folded("Memory by item and pipeline stage", _items(profile)),
        pieces.section("Evidence of constants", evidence_table(profile), level=level),
        pieces.section("Measurement", _measurement(profile), level=level),
        pieces.folded("Resolved scenario", pieces.text(scenario_yaml(profile.scenario), "scenario")),
    )


def short_answer(profile: Profile, changes: Sequence[Advice] = ()) -> Iterator[Said]:
    """Yield whether it fits, how fast it is, what binds it, what it costs and what to change."""
    yield from of_profile(profile)
    if changes:
        yield changed(changes[0], profile)
    elif profile.advice:
        asks = "largest part" if profile.fits is False else "recommended change"
        yield Said(asks=asks, says=profile.advice[0], kind=BAD)


def label_of(profile: Profile) -> str:
    """Return what a profile's chart shows, with its main figures, for readers who do not see it."""
    is_timed = profile.task is not SERVING or profile.completed
    times = [f"{part.label} {units.seconds(part.value)}" for part in (summary.phases(profile) if is_timed else ())]
    memory = (
        [f"{part.label} {units.gib(part.value)}" for part in summary.memory(profile)] if profile.memory_bytes else []
    )
    said = [f"time by phase: {', '.join(times)}"] * bool(times) + [f"memory: {', '.join(memory)}"] * bool(memory)
    return "; ".join([labels.title(profile.scenario), *said])


def scenario_yaml(scenario: Any) -> str:
    """Return the fully resolved scenario as a file that can be asked again."""
    import yaml

    return yaml.safe_dump(to_mapping(scenario), sort_keys=False, allow_unicode=True, width=100)


def _sentences(profile: Profile, changes: Sequence[Advice]) -> Iterator[str]:
    yield from summary.serving_sentences(profile)
    # The first stands in the short answer, unless a change does.
    yield from profile.advice[0 if changes else 1 :]
    yield from measured_sentences(profile)
    yield from summary.anchor_sentences([profile])


def _figures(profile: Profile) -> str:
    task = profile.task
    found = summary.figures(profile, (*task.headline, *task.details, *task.totals))
    return pieces.cards((label, value) for label, value in found if value != summary.NOTHING)


def _times(profile: Profile) -> str:
    """Mean and percentiles of the times of requests."""
    if profile.task is not SERVING or not profile.completed:
        return ""
    times = {key: metric for key, metric in profile.task.metrics.items() if metric.parts == STATISTICS}
    names = tuple(profile.latency_s)
    rows: list[tuple[str, ...]] = []
    for key, metric in times.items():
        if (said := getattr(profile, key)) is None:
            continue
        rows.append((metric.label, *(summary.NOTHING if said[n] is None else units.seconds(said[n]) for n in names)))
        spans = [summary.interval_of(profile, f"{key}.{name}") for name in names]
        rows += [("80 % interval", *spans)] if any(spans) else []
    return pieces.table(("time", *names), rows, label="times of requests")


def _modules(profile: Profile) -> str:
    """Exposed seconds by module and phase, which sum to the phases."""
    tables = summary.modules(profile)
    if not tables:
        return ""
    phases = [phase for phase in profile.task.phases if any(phase in times for _, times in tables)]
    rows = [
        (module, *(units.seconds(times[p]) if p in times else "" for p in phases), units.seconds(sum(times.values())))
        for module, times in tables
    ]
    sums = [sum(times.get(phase, 0.0) for _, times in tables) for phase in phases]
    rows.append(("total", *map(units.seconds, sums), units.seconds(sum(sums))))
    heads = ("module", *(summary.LABELS.get(p, p) for p in phases), "total")
    return pieces.table(heads, rows, label="time by module and phase")


def _stages(profile: Profile) -> str:
    """The memory ledger by pipeline stage."""
    parts = list(dict.fromkeys(p for stage in profile.stages for p, v in stage.parts.items() if float(v) != 0))
    if not parts:
        return ""
    rows = [(summary.LABELS.get(p, p), *(units.gib(float(s.parts.get(p, 0))) for s in profile.stages)) for p in parts]
    rows.append(("total", *(units.gib(float(s.total)) for s in profile.stages)))
    return pieces.table(("part", *(s.stage for s in profile.stages)), rows, label="memory by stage")


def _items(profile: Profile) -> str:
    """The lines behind each part of the memory ledger."""
    items = list(dict.fromkeys(i for stage in profile.stages for i, v in stage.items.items() if float(v) != 0))
    if not items:
        return ""
    lines = [(item, *(units.gib(float(s.items.get(item, 0))) for s in profile.stages)) for item in items]
    return pieces.table(("item", *(s.stage for s in profile.stages)), lines, label="memory by item")


def evidence_table(profile: Profile) -> str:
    """Return what the constants of each kind of operator, and of the framework, rest on."""
    if not profile.evidence:
        return ""
    if isinstance(profile.evidence, str):
        return pieces.paragraphs([profile.evidence])
    rows = [(name, str(value)) for name, value in profile.evidence.items()]
    return pieces.table(("for", "evidence"), rows, label="evidence", numbers=False)


def _measurement(profile: Profile) -> str:
    if not profile.measurement:
        return ""
    from sightline.profile.results import flatten

    rows = [(key, _plain(value)) for key, value in flatten(profile.measurement).items() if value not in (None, "", [])]
    return pieces.table(("", ""), rows, label="measurement", numbers=False)


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
