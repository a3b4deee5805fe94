"""The picture of a search of plans: the front or the scaling, limits, and where time and memory of the best go."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import altair as alt

from sightline.answers import plan_columns, plan_sentences, summary
from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.profile import overlapped_s
from sightline.profile.metrics import metric_of
from sightline.report.charts import drawing, stacks
from sightline.report.charts.axes import Axis, axis
from sightline.report.charts.drawing import SCREEN, Room
from sightline.report.charts.front import Ends, Point, Region, front_panel
from sightline.report.charts.limits import Bar, limit_panel
from sightline.report.charts.scaling import LEAST_POINTS, Scale, scaling_panels

_MOST = 12
"""Plans whose time and memory are drawn."""
_SHORT_ROW = 52
"""Pixels of the name of a row where there is little room."""
_FOLLOWS = {
    **dict.fromkeys(("run_time_s", "calendar_time_s", "cost_usd"), ("step_time_s", False)),
    "cost_usd_per_million_tokens": ("latency_s", False),
    "output_tokens_per_s_per_user": ("tpot_s", True),
    **dict.fromkeys(("output_tokens_per_s", "output_tokens_per_s_per_device"), ("latency_s", True)),
}
"""The time that a figure follows from, and whether it is a rate: less where the time is longer."""


def plan_chart(answer: PlanAnswer, room: Room = SCREEN, *, titled: bool = True) -> dict[str, Any]:
    """Return the Vega-Lite specification.

    Args:
        answer: Of a search.
        room: How large the chart may be.
        titled: Whether it says what it shows, as it has to on its own.
    """
    if not answer.plans:
        nothing = drawing.of([{"text": plan_sentences.searched(answer)}]).mark_text().encode(text=alt.Text("text:N"))
        return drawing.configure(nothing, plan_sentences.title(answer), room=room)
    asked = _promised(answer) or answer.limits
    panels = [*_trade(answer, asked, room), *_limits(answer, asked, room), stacks_panel(answer, room)]
    chart = alt.concat(*panels, columns=1, spacing=30, align="none").resolve_scale(
        color="independent", shape="independent"
    )
    title = plan_sentences.title(answer) if titled else ""
    return drawing.configure(chart, title, _lines(answer) if titled else (), room)


def _lines(answer: PlanAnswer) -> list[str]:
    """What the picture shows, and what it rests on."""
    first = answer.plans[0].profile
    evidence = first.evidence.get("framework") if isinstance(first.evidence, Mapping) else None
    lines = [*plan_sentences.subtitle(answer), plan_sentences.searched(answer)]
    if any(one.profile.interval for one in answer.plans):
        said = f"; {summary.EVIDENCE_OF.get(first.task.name, 'evidence')}: {evidence}" if evidence else ""
        lines.append(f"Thin lines are 80 % intervals{said}.")
    if any(overlapped_s(one.profile.rows) > 0 for one in answer.plans[:_MOST]):
        lines.append("Red strips below the bars are overlapped communication.")
    return [*lines, *plan_sentences.standing(answer), *summary.anchor_sentences([one.profile for one in answer.plans])]


def stacks_panel(answer: PlanAnswer, room: Room = SCREEN) -> Any:
    """Return time by phase and memory by part of the best plans."""
    named = [(row_of(answer, one, room), one.profile) for one in answer.plans[:_MOST]]
    whole = answer.plans[0].profile
    title = whole.task.metrics[whole.task.whole.partition(".")[0]].label.capitalize()
    if not room.side_by_side:
        room = replace(room, panel=room.panel + room.labels - _SHORT_ROW, labels=_SHORT_ROW)
    return drawing.beside(stacks.times(named, title, room), stacks.memory(named, room), room=room)


def row_of(answer: PlanAnswer, plan: RankedPlan, room: Room = SCREEN) -> str:
    """Return the name of a plan's row: its rank, and where there is room what it alone does."""
    if not room.side_by_side:
        return f"plan {plan.rank}"
    return plan_columns.name_of(answer, plan)


def _trade(answer: PlanAnswer, limits: Mapping[str, float], room: Room) -> Iterator[Any]:
    """The Pareto front if one was asked for, or the curve over numbers of devices if these vary."""
    if answer.pareto and plan_columns.front_axes(answer):
        yield front(answer, limits, room)
    scales = _scales(answer)
    lines = {scale.line for scale in scales}
    if any(sum(s.line == line for s in scales) >= LEAST_POINTS for line in lines):
        yield scaling_panels(scales, room)


def front(answer: PlanAnswer, limits: Mapping[str, float], room: Room = SCREEN) -> Any:
    """Return the panel of the Pareto front."""
    keys = list(plan_columns.front_axes(answer))
    across, up = (_axis(answer, key) for key in keys)
    there = [one for one in answer.plans if all(plan_columns.value(one, key) is not None for key in keys)]
    points = [_point(answer, one, keys) for one in there]
    title = " and ".join(plan_columns.name(key) for key in keys)
    title = f"Pareto front: {title}"
    return front_panel(points, across, up, title=title, region=_region(keys, limits), room=room)


def front_chart(answer: PlanAnswer, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the Pareto front alone, with what was asked for; None where no front was asked for."""
    if not answer.plans or not answer.pareto or not plan_columns.front_axes(answer):
        return None
    has = "thin line" if any(one.profile.interval for one in answer.plans) else ""
    lines = [plan_sentences.searched(answer), drawing.basis([one.profile.evidence for one in answer.plans], has)]
    panel = front(answer, _promised(answer) or answer.limits, room)
    # In a concatenation the panel keeps its own title, which says what is shaded.
    return drawing.configure(alt.vconcat(panel), plan_sentences.title(answer), [line for line in lines if line], room)


def _axis(answer: PlanAnswer, key: str) -> Axis:
    values = [found for one in answer.plans if (found := plan_columns.value(one, key)) is not None]
    shown = [one for position, one in enumerate(answer.plans) if position in answer.pareto or one.rank == 1]
    values += [end for one in shown for end in interval_of(one, key) or ()]
    better = "more" if metric_of(key).better == "higher" else "less"
    return axis(key, plan_columns.name(key), values, best=better)


def _point(answer: PlanAnswer, plan: RankedPlan, keys: list[str]) -> Point:
    x, y = (plan_columns.value(plan, key) or 0.0 for key in keys)
    ends = [interval_of(plan, key) for key in keys]
    return Point(
        x=x,
        y=y,
        label=str(plan.rank),
        about=row_of(answer, plan),
        on_front=any(answer.plans[position] is plan for position in answer.pareto),
        chosen=plan.rank == 1,
        x_interval=ends[0],
        y_interval=ends[1],
    )


def interval_of(plan: RankedPlan, key: str) -> Ends | None:
    """Return the 80 % interval of a figure; one that follows from a time has that time's, turned round for a rate."""
    interval, value = plan.profile.interval, plan_columns.value(plan, key)
    time, is_rate = _FOLLOWS.get(key, (key, False))
    ends = interval.get(key) or interval.get(time)
    whole = plan_columns.value(plan, key if key in interval else time)
    if ends is None or ends[1] is None or not value or not whole:
        return None
    low, high = float(ends[0]), float(ends[1])
    if is_rate and key not in interval:
        return value * whole / high, value * whole / low
    return value * low / whole, value * high / whole


def _region(keys: list[str], limits: Mapping[str, float]) -> Region | None:
    """What was allowed of the figures on the axes; a time per token is the reciprocal of a user's rate."""
    asked = {key: limits[key] for key in keys if key in limits}
    said = [f"at most a {plan_columns.name(key)} of {plan_columns.shown(key, most)}" for key, most in asked.items()]
    rate = 1 / limits["tpot_s"] if "tpot_s" in limits and keys[0] == plan_columns.SERVING_AXES[0] else None
    if rate is not None:
        said.append(f"at least {plan_columns.shown(keys[0], rate)} {plan_columns.name(keys[0])}")
    if not said:
        return None
    return Region(label=" and ".join(said), x_most=asked.get(keys[0]), y_most=asked.get(keys[1]), x_least=rate)


def _promised(answer: PlanAnswer) -> dict[str, float]:
    """The limits of a load's objective by the result key of the percentile that has to keep them."""
    slo = getattr(answer.plans[0].profile.scenario.workload, "slo", None)
    if slo is None:
        return {}
    from sightline.planning.serving.layouts import limits_of

    return {plan_columns.at_percentile(key, slo.percentile): limit for key, limit in limits_of(slo).items()}


def _limits(answer: PlanAnswer, limits: Mapping[str, float], room: Room) -> Iterator[Any]:
    """A panel for each limit that no axis of the front shows: what the plans take of it."""
    on_axes = plan_columns.front_axes(answer)
    for key, limit in limits.items():
        there = [(one, value) for one in answer.plans[:_MOST] if (value := plan_columns.value(one, key)) is not None]
        if key in (*on_axes, plan_columns.MEMORY) or not there:
            continue
        bars = [
            Bar(row=row_of(answer, one, room), value=v, text=plan_columns.shown(key, v), interval=interval_of(one, key))
            for one, v in there
        ]
        label = plan_columns.name(key)
        yield limit_panel(
            key, label[:1].upper() + label[1:], bars, limit, f"at most {plan_columns.shown(key, limit)}", room
        )


def _scales(answer: PlanAnswer) -> list[Scale]:
    """The fastest of the plans for each kind and number of devices."""
    best: dict[tuple[str, int], RankedPlan] = {}
    for one in answer.plans:
        cluster = one.profile.scenario.cluster
        place = (cluster.device.name, int(cluster.devices))
        if place not in best or _rate(one) > _rate(best[place]):
            best[place] = one
    return [
        Scale(
            line=line,
            devices=count,
            tokens_per_s=_rate(one),
            interval=interval_of(one, one.profile.task.rates[0]),
            label=row_of(answer, one),
        )
        for (line, count), one in sorted(best.items())
    ]


def _rate(plan: RankedPlan) -> float:
    return float(getattr(plan.profile, plan.profile.task.rates[0]))
