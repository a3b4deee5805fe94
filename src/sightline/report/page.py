"""The report: one page with picture, tables and the scenario itself, which opens anywhere without a network."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from sightline.loading import to_mapping
from sightline.profile import SERVING, Profile
from sightline.profile.metric import STATISTICS
from sightline.report import labels, summary, units
from sightline.report.charts import drawing
from sightline.report.charts.drawing import PHONE, chart_element, html_document
from sightline.report.charts.profile import profile_chart, single_chart
from sightline.report.measured import measured_sentences
from sightline.report.swept import told_apart

_MOST_DETAILS = 24
"""Scenarios shown in full; with more the page would load slowly."""

STYLE = """
:root { --ink: #222; --faint: #666; --line: #e4e4e4; --good: #2e7d4f; --bad: #c0392b; --perhaps: #b26a00; }
body { font: 15px/1.5 Helvetica, Arial, sans-serif; color: var(--ink); background: #fff; margin: 0; }
main { max-width: 860px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 34px 0 8px; }
p { margin: 0 0 4px; } .faint { color: var(--faint); } .bad { color: var(--bad); } .good { color: var(--good); }
.perhaps { color: var(--perhaps); }
.figures { display: flex; flex-wrap: wrap; gap: 10px; margin: 18px 0; }
.figure { border: 1px solid var(--line); border-radius: 6px; padding: 8px 14px; min-width: 96px; }
.figure b { display: block; font-size: 19px; } .figure span { color: var(--faint); font-size: 12px; }
table { border-collapse: collapse; width: 100%; } .scroll { overflow-x: auto; }
th { text-align: left; color: var(--faint); font-weight: normal; font-size: 13px; }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: #f6f6f6; padding: 12px 14px; border-radius: 6px; overflow-x: auto; font-size: 13px; }
details { border-top: 1px solid var(--line); padding: 10px 0; } summary { cursor: pointer; font-weight: bold; }
@media print { details { break-inside: avoid; } pre { white-space: pre-wrap; } }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --faint: #aab0b6; --line: #33383e; --good: #5fc08a; --bad: #ff7b6b; --perhaps: #eab04a; }
  body { background: #16191d; } pre { background: #22262b; }
}
"""


def page(profiles: Sequence[Profile], cells: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the report on one profile, or on several of one task with a comparison first.

    ``cells`` holds each profile's values of the keys that were swept, as they were typed.
    """
    scenarios = [p.scenario for p in profiles]
    if len(profiles) == 1:
        title = labels.title(scenarios[0])
        return html_document(title, f"<main><h1>{escape(title)}</h1>{detail(profiles[0], 'chart')}</main>", STYLE)
    title = f"{len(profiles):,} scenarios compared"
    named = list(zip(labels.variant_labels(scenarios), profiles, strict=True))
    details = "".join(
        f"<details><summary>{escape(label)}</summary>{detail(profile, f'chart{position}')}</details>"
        for position, (label, profile) in enumerate(named[:_MOST_DETAILS])
    )
    wide, small = (_chart_of_several(profiles, room) for room in (drawing.SCREEN, PHONE))
    chart = chart_element(wide, "chart", small)
    columns: list[Any] = [*told_apart(profiles, cells), *summary.compared(profiles)]
    lines = zip(*(column.cells for column in columns), strict=True)
    figures = table(tuple(column.heading for column in columns), list(lines))
    body = f"<main><h1>{title}</h1>{chart}<h2>Figures</h2>{figures}<h2>In full</h2>{details}</main>"
    return html_document(title, body, STYLE)


def _chart_of_several(profiles: Sequence[Profile], room: drawing.Room) -> dict[str, Any]:
    """The picture of several profiles; of a load at several rates its curve."""
    if profiles[0].task is SERVING:
        from sightline.report.charts.serving import serving_chart

        curve = serving_chart(profiles, room)
        if curve is not None:
            return curve
    return profile_chart(profiles, room)


def _class_of_fit(profile: Profile) -> str:
    """Green where memory is enough, amber where its interval says perhaps, red where it is not."""
    return "bad" if not profile.fits else "perhaps" if profile.tight else "good"


def detail(profile: Profile, identifier: str, *, narrow: bool = True) -> str:
    """Return everything about one profile; its chart has an ``identifier`` and may have a narrow form."""
    verdict = f"Memory of the fullest device {summary.fit_sentence(profile)}"
    warnings = dict.fromkeys((*profile.scenario.warnings, *profile.warnings))
    small = single_chart(profile, titled=False, room=PHONE) if narrow else None
    chart = chart_element(single_chart(profile, titled=False), identifier, small)
    sections = [
        *(f'<p class="faint">{escape(line)}</p>' for line in labels.subtitle(profile.scenario)),
        _figures(profile),
        f'<p class="{_class_of_fit(profile)}">{verdict}</p>',
        *(f'<p class="faint">{escape(sentence)}</p>' for sentence in summary.interval_sentences(profile)),
        *(f"<p>{escape(sentence)}</p>" for sentence in summary.serving_sentences(profile)),
        *(f'<p class="bad">{escape(sentence)}</p>' for sentence in profile.advice),
        *(f"<p>{escape(sentence)}</p>" for sentence in measured_sentences(profile)),
        *(f"<p>{escape(sentence)}</p>" for sentence in summary.anchor_sentences([profile])),
        *(f"<p>Warning: {escape(warning)}</p>" for warning in warnings),
        _times(profile),
        _over_time(profile, identifier),
        f'<div class="scroll">{chart}</div>',
        _modules(profile),
        _stages(profile),
        _evidence(profile),
        f"<h2>The scenario, fully resolved</h2><pre>{escape(_yaml(profile))}</pre>",
    ]
    return "".join(sections)


def _figures(profile: Profile) -> str:
    task = profile.task
    cards = [
        *summary.figures(profile, (*task.headline, *task.details)),
        ("bottleneck", summary.bound_by(profile)),
        *summary.figures(profile, task.totals),
    ]
    figures = "".join(
        f'<div class="figure"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for name, value in cards
        if value != summary.NOTHING
    )
    return f'<div class="figures">{figures}</div>'


def _times(profile: Profile) -> str:
    """Return mean and percentiles of the times of requests."""
    if profile.task is not SERVING or not profile.completed:
        return ""
    times = {key: metric for key, metric in profile.task.metrics.items() if metric.parts == STATISTICS}
    names = tuple(profile.latency_s)
    rows = [
        (metric.label, *("-" if said[n] is None else units.seconds(said[n]) for n in names))
        for key, metric in times.items()
        if (said := getattr(profile, key)) is not None
    ]
    return table(("time", *names), rows)


def _over_time(profile: Profile, identifier: str) -> str:
    """Return the picture of a run of serving over time; empty where nobody saw it."""
    if profile.task is not SERVING:
        return ""
    from sightline.report.charts.serving import course_panels

    panels = course_panels(profile)
    wide, narrow = (
        drawing.configure(drawing.beside(*panels, room=room, spacing=44), room=room) if panels else None
        for room in (drawing.SCREEN, PHONE)
    )
    if wide is None:
        return ""
    return f'<div class="scroll">{chart_element(wide, f"{identifier}-time", narrow)}</div>'


def _modules(profile: Profile) -> str:
    """Return exposed seconds by module and phase, which sum to the phases."""
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
    heading = "<h2>Time by module and phase</h2>"
    return heading + table(("module", *(summary.LABELS.get(p, p) for p in phases), "total"), rows)


def _stages(profile: Profile) -> str:
    """Return the memory ledger by pipeline stage, with the lines behind each part."""
    if not profile.stages:
        return ""
    names = [stage.stage for stage in profile.stages]
    parts = list(dict.fromkeys(p for stage in profile.stages for p, v in stage.parts.items() if float(v) != 0))
    items = list(dict.fromkeys(i for stage in profile.stages for i, v in stage.items.items() if float(v) != 0))
    rows = [(summary.LABELS.get(p, p), *(units.gib(float(s.parts.get(p, 0))) for s in profile.stages)) for p in parts]
    rows.append(("total", *(units.gib(float(s.total)) for s in profile.stages)))
    text = "<h2>Memory by pipeline stage</h2>" + table(("part", *names), rows)
    if items:
        lines = [(item, *(units.gib(float(s.items.get(item, 0))) for s in profile.stages)) for item in items]
        text += "<h2>Memory by item and pipeline stage</h2>" + table(("item", *names), lines)
    return text


def _evidence(profile: Profile) -> str:
    if not profile.evidence:
        return ""
    rows = [(name, str(value)) for name, value in profile.evidence.items()]
    return "<h2>Where the constants come from</h2>" + table(("for", "evidence"), rows, numbers=False)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """Return a table of texts, of which all but the first of a row are ``numbers``."""

    def cells(tag: str, values: Sequence[str]) -> str:
        kind = ' class="n"' if numbers else ""
        return "".join(f"<{tag}{kind if i else ''}>{escape(v)}</{tag}>" for i, v in enumerate(values))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{cells("th", headings)}</tr>{body}</table></div>'


def _yaml(profile: Profile) -> str:
    import yaml

    mapping = to_mapping(profile.scenario)
    return yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True, width=100)
