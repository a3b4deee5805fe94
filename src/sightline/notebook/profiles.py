"""Profiles of every task, one or several, and the highest rate that a server can take."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group
from rich.text import Text

from sightline.notebook import pieces
from sightline.notebook.view import NOTEBOOK, View
from sightline.profile import SERVING, Profile
from sightline.profile.metrics import STATISTICS
from sightline.report import labels, summary, units
from sightline.report.measured import measured_sentences

if TYPE_CHECKING:
    from sightline.simulation.capacity import Capacity


def profile(answer: Profile) -> View:
    """Return one profile: the answer of five seconds, where the time goes, and its charts."""
    if np.ndim(answer.whole_s):
        return _of_many_plans(answer)
    from sightline.report.terminal.profile import tables

    html = "".join((_short(answer), _times(answer), _modules(answer), _resolved(answer)))
    return View(html=html, text=Group(*tables([answer])), charts=_charts(answer))


def _of_many_plans(answer: Profile) -> View:
    """A profile whose numbers are arrays: the range of each."""
    ranges = [(answer.task.figures[k].label, _range(answer, k)) for k in answer.task.headline]
    title = f"{answer.source} profile of {np.size(answer.whole_s):,} plans"
    return View(html=pieces.title(title) + pieces.rows_of(ranges), text=Text(repr(answer)))


def _range(answer: Profile, key: str) -> str:
    values = answer.figure(key)
    if values is None:
        return ""
    unit = answer.task.declared(key).unit
    return " to ".join(dict.fromkeys(summary.shown(end(values).item(), unit) for end in (np.min, np.max)))


def _short(answer: Profile) -> str:
    """Title, subtitle, the short answer, and what else a reader has to know."""
    from sightline.explanation.explain import changes_of
    from sightline.report.explained.why import BETTER
    from sightline.report.pages.profile import short_answer

    # A load's changes would each be simulated, which takes longer than a notebook may to show what it has.
    changes = [] if answer.task is SERVING else changes_of(answer)
    unfit = answer.advice[0 if changes else 1 :]
    said = (*summary.serving_sentences(answer), *unfit, *measured_sentences(answer))
    better = pieces.section(BETTER, pieces.paragraphs(one.sentence for one in changes)) if changes else ""
    return "".join(
        (
            pieces.title(f"{labels.title(answer.scenario)}: {answer.source}"),
            pieces.paragraphs(labels.subtitle(answer.scenario), "faint"),
            pieces.rows_of((one.asks, one.says, one.kind) for one in short_answer(answer, changes)),
            better,
            pieces.paragraphs((*said, *summary.anchor_sentences([answer]))),
            pieces.paragraphs(summary.interval_sentences(answer), "faint"),
            pieces.warned((*answer.scenario.warnings, *answer.warnings)),
        )
    )


def _times(answer: Profile) -> str:
    """Mean and percentiles of what requests wait for."""
    if answer.task is not SERVING or not answer.completed:
        return ""
    names = tuple(answer.latency_s)
    rows = [
        (metric.label, *("-" if said[name] is None else units.seconds(said[name]) for name in names))
        for key, metric in answer.task.metrics.items()
        if metric.parts == STATISTICS and (said := getattr(answer, key)) is not None
    ]
    return pieces.table(("time", *names), rows)


def _modules(answer: Profile) -> str:
    """Exposed seconds by module and phase, folded."""
    found = summary.modules(answer)
    phases = [phase for phase in answer.task.phases if any(phase in times for _, times in found)]
    rows = [
        (module, *(units.seconds(times[p]) if p in times else "" for p in phases), units.seconds(sum(times.values())))
        for module, times in found
    ]
    if not rows:
        return ""
    headings = ("module", *(summary.LABELS.get(phase, phase) for phase in phases), "in all")
    return pieces.folded("time by module and phase", pieces.table(headings, rows))


def _resolved(answer: Profile) -> str:
    """The scenario as a file, folded."""
    from sightline.report.pages.profile import scenario_yaml

    return pieces.folded("the scenario, fully resolved", f"<pre>{escape(scenario_yaml(answer.scenario))}</pre>")


def _charts(answer: Profile) -> list[dict[str, Any]]:
    if not (answer.phases or answer.memory_bytes):
        return []
    from sightline.report.charts.profile import single_chart

    found = [single_chart(answer, titled=False, room=NOTEBOOK)]
    if answer.task is SERVING:
        from sightline.report.charts.serving.course import course_chart
        from sightline.report.charts.serving.latencies import latency_chart

        more = latency_chart(answer, room=NOTEBOOK), course_chart(answer, NOTEBOOK)
        found += [chart for chart in more if chart is not None]
    return found


def profiles(answers: Sequence[Profile]) -> View:
    """Return several profiles as a table for each task."""
    from sightline.profile import TASKS
    from sightline.report.terminal.profile import tables

    found = [[one for one in answers if one.task is task] for task in TASKS]
    tasks = [_compared(of_one_task) for of_one_task in found if of_one_task]
    return View(html="".join(tasks), text=Group(*tables(answers)))


def _compared(answers: Sequence[Profile]) -> str:
    columns = summary.compared(answers)
    names = labels.variant_labels([one.scenario for one in answers])
    rows = zip(names, *(column.cells for column in columns), strict=True)
    title = pieces.title(labels.common_title([one.scenario for one in answers]))
    return title + pieces.table(("", *(column.heading for column in columns)), rows)


def capacity(found: "Capacity") -> View:
    """Return the highest rate that keeps the objective, and what users wait for at every rate that was tried."""
    from rich.table import Table

    headings = ("requests/s", "keep the SLO", "TTFT p90", "TPOT p90", "output tokens/s")
    rows = [
        (
            units.digits(one.rate),
            units.percent(one.good),
            *(_waited(one.profile, key) for key in ("ttft_s", "tpot_s")),
            summary.figure(one.profile, "output_tokens_per_s"),
        )
        for one in found.tried
    ]
    table = Table(*headings, box=None)
    for row in rows:
        table.add_row(*row)
    html = pieces.title(_title(found)) + pieces.paragraphs([found.sentence])
    return View(
        html=html + pieces.table(headings, rows, numbers=True),
        text=Group(Text(found.sentence), table),
        charts=_rates(found),
    )


def _title(found: "Capacity") -> str:
    return labels.title(found.tried[0].profile.scenario) if found.tried else "capacity"


def _waited(answer: Profile, key: str) -> str:
    seconds = (getattr(answer, key) or {}).get("p90")
    return summary.NOTHING if seconds is None else units.seconds(seconds)


def _rates(found: "Capacity") -> list[dict[str, Any]]:
    from sightline.report.charts.serving.chart import serving_chart

    answered = [one.profile for one in found.tried if one.profile.completed]
    chart = serving_chart(answered, NOTEBOOK) if len(answered) > 1 else None
    return [] if chart is None else [chart]
