"""The report: one page with picture, tables and the scenario itself, which opens anywhere without a network."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from sightline.profile import GENERATION, Profile
from sightline.profile.results import scenario_to_dict
from sightline.report import generation_summary, summary, units
from sightline.report.charts import prediction_chart, single_chart
from sightline.report.drawing import chart_element, html_document

_MOST_DETAILS = 24
"""Scenarios shown in full when many were asked; beyond that the page would grow heavy."""

STYLE = """
:root { --ink: #222; --faint: #666; --line: #e4e4e4; --good: #2e7d4f; --bad: #c0392b; }
body { font: 15px/1.5 Helvetica, Arial, sans-serif; color: var(--ink); background: #fff; margin: 0; }
main { max-width: 860px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 34px 0 8px; }
p { margin: 0 0 4px; } .faint { color: var(--faint); } .bad { color: var(--bad); } .good { color: var(--good); }
.figures { display: flex; flex-wrap: wrap; gap: 10px; margin: 18px 0; }
.figure { border: 1px solid var(--line); border-radius: 6px; padding: 8px 14px; min-width: 96px; }
.figure b { display: block; font-size: 19px; } .figure span { color: var(--faint); font-size: 12px; }
table { border-collapse: collapse; width: 100%; } .scroll { overflow-x: auto; }
th { text-align: left; color: var(--faint); font-weight: normal; font-size: 13px; }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: #f6f6f6; padding: 12px 14px; border-radius: 6px; overflow-x: auto; font-size: 13px; }
details { border-top: 1px solid var(--line); padding: 10px 0; } summary { cursor: pointer; font-weight: bold; }
@media print { details { break-inside: avoid; } }
"""


Shown = Profile


def page(profiles: Sequence[Shown]) -> str:
    """Return the report on one prediction, or on several of one kind with a comparison first."""
    if len(profiles) == 1:
        title = summary.title(profiles[0].scenario)
        return html_document(title, f"<main><h1>{escape(title)}</h1>{_detail(profiles[0], 'chart')}</main>", STYLE)
    title = f"{len(profiles):,} scenarios compared"
    labels = summary.variant_labels([p.scenario for p in profiles])
    details = "".join(
        f"<details><summary>{escape(label)}</summary>{_detail(profile, f'chart{position}')}</details>"
        for position, (label, profile) in enumerate(zip(labels, profiles, strict=True))
        if position < _MOST_DETAILS
    )
    chart = chart_element(prediction_chart(profiles), "chart")
    body = (
        f"<main><h1>{title}</h1>{chart}<h2>Figures</h2>{_comparison(labels, profiles)}<h2>In full</h2>{details}</main>"
    )
    return html_document(title, body, STYLE)


def _detail(profile: Shown, identifier: str) -> str:
    """Return everything about one prediction."""
    if profile.task is GENERATION:
        subtitle, cards = generation_summary.subtitle(profile.scenario), generation_summary.cards(profile)
        intervals, stages = generation_summary.interval_sentences(profile), ""
    else:
        subtitle, cards = summary.subtitle(profile.scenario), _cards(profile)
        intervals, stages = summary.interval_sentences(profile), _stages(profile)
    verdict = f"Memory of the fullest device {summary.fit_sentence(profile)}"
    sections = [
        *(f'<p class="faint">{escape(line)}</p>' for line in subtitle),
        _figures(cards),
        f'<p class="{"good" if profile.fits else "bad"}">{verdict}</p>',
        *(f'<p class="faint">{escape(sentence)}</p>' for sentence in intervals),
        *(f'<p class="bad">{escape(sentence)}</p>' for sentence in profile.advice),
        *(f"<p>{escape(sentence)}</p>" for sentence in summary.measured_sentences(profile)),
        *(f"<p>Warning: {escape(w)}</p>" for w in dict.fromkeys((*profile.scenario.warnings, *profile.warnings))),
        f'<div class="scroll">{chart_element(single_chart(profile, titled=False), identifier)}</div>',
        _modules(profile),
        stages,
        _evidence(profile),
        f"<h2>The scenario, fully resolved</h2><pre>{escape(_yaml(profile))}</pre>",
    ]
    return "".join(sections)


def _cards(profile: Profile) -> list[tuple[str, str]]:
    return [
        ("step time", units.seconds(float(profile.step_time_s))),
        ("tokens/s", units.digits(float(profile.tokens_per_s))),
        ("tokens/s per device", units.digits(float(profile.tokens_per_s_per_device))),
        ("MFU", units.percent(float(profile.mfu))),
        ("HFU", units.percent(float(profile.hfu))),
        ("model FLOP/s per device", units.rate(float(profile.model_flops_per_s_per_device), "FLOP/s")),
        ("bottleneck", str(profile.bottleneck)),
        *summary.run_figures(profile),
    ]


def _figures(cards: Sequence[tuple[str, str]]) -> str:
    figures = "".join(
        f'<div class="figure"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in cards
    )
    return f'<div class="figures">{figures}</div>'


def _modules(profile: Shown) -> str:
    tables = summary.modules(profile)
    if not tables:
        return ""
    phases = list(dict.fromkeys(phase for _, times in tables for phase in times))
    rows = [
        (module, *(units.seconds(times[p]) if p in times else "" for p in phases), units.seconds(sum(times.values())))
        for module, times in tables
    ]
    heading = "<h2>Device time by module and phase</h2>"
    return heading + _table(("module", *(summary.LABELS.get(p, p) for p in phases), "total"), rows)


def _stages(profile: Profile) -> str:
    """Return the memory ledger by pipeline stage, with the lines behind each part."""
    if not profile.stages:
        return ""
    names = [stage.stage for stage in profile.stages]
    parts = list(dict.fromkeys(p for stage in profile.stages for p, v in stage.parts.items() if float(v) != 0))
    items = list(dict.fromkeys(i for stage in profile.stages for i, v in stage.items.items() if float(v) != 0))
    rows = [(summary.LABELS.get(p, p), *(units.gib(float(s.parts.get(p, 0))) for s in profile.stages)) for p in parts]
    rows.append(("total", *(units.gib(float(s.total)) for s in profile.stages)))
    text = "<h2>Memory by pipeline stage</h2>" + _table(("part", *names), rows)
    if items:
        lines = [(item, *(units.gib(float(s.items.get(item, 0))) for s in profile.stages)) for item in items]
        text += "<h2>Lines behind it</h2>" + _table(("line", *names), lines)
    return text


def _evidence(profile: Shown) -> str:
    if not profile.evidence:
        return ""
    rows = [(name, str(value)) for name, value in profile.evidence.items()]
    return "<h2>Where the constants come from</h2>" + _table(("for", "evidence"), rows, numbers=False)


def _comparison(labels: Sequence[str], profiles: Sequence[Shown]) -> str:
    generation = profiles[0].task is GENERATION
    headings = generation_summary.COMPARED if generation else summary.COMPARED
    rows = [
        (label, *(generation_summary.compared(p) if generation else summary.compared(p)))
        for label, p in zip(labels, profiles, strict=True)
    ]
    return _table(("scenario", *headings), rows)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    def cells(tag: str, values: Sequence[str]) -> str:
        kind = ' class="n"' if numbers else ""
        return "".join(f"<{tag}{kind if i else ''}>{escape(v)}</{tag}>" for i, v in enumerate(values))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{cells("th", headings)}</tr>{body}</table></div>'


def _yaml(profile: Shown) -> str:
    import yaml

    from sightline.profile.results import plain

    mapping: Mapping[str, object] = plain(scenario_to_dict(profile.scenario))
    return yaml.safe_dump(dict(mapping), sort_keys=False, allow_unicode=True, width=100)
