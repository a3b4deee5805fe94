"""Every kind of chart: its name, what it shows and of which answers, and the charts that an answer has.

The command line, the report, the page and notebooks ask here which charts there are, and need to know none by name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sightline.charts.drawing import PHONE, SCREEN, Room
from sightline.charts.rendering import data_of
from sightline.profile import SERVING, Profile

if TYPE_CHECKING:
    from sightline.reproduction.outcomes import ReproducedTable
    from sightline.simulation.outcome import Outcome

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A measured load and the simulation of the same requests."""

    measured: "Outcome"
    profile: Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of chart."""

    name: str
    """As file names and addresses have it."""
    title: str
    answers: str
    """Of what it is drawn, in words."""
    command: str
    """What draws it."""
    draws: Callable[[Any, Room], Spec | None] = field(repr=False)
    """Returns the specification of an answer, None where the answer has nothing for it to show."""


class Chart(NamedTuple):
    """A chart of an answer, for a screen and for a phone, and the numbers in it."""

    name: str
    """Of its kind; of a table of a reproduced source, the table's."""
    title: str
    """What it shows, for headings and menus."""
    wide: Spec
    phone: Spec
    table: list[dict[str, Any]]
    """What is drawn, a row per mark."""


def charts_of(answer: Any) -> list[Chart]:
    """Return the charts that an answer has, the one that says the most first; an empty list where it has none.

    Args:
        answer: A profile or several of one task, a search of plans, a study, a comparison, a sensitivity, tables of
            the roofline with their names, results of validation, an explanation, a `Replay`, or a reproduced source,
            which has a chart for each of its tables with a picture.
    """
    from sightline.reproduction.outcomes import Reproduction

    if isinstance(answer, Reproduction):
        return [_chart_of_table(one) for one in answer.tables if one.answer.figures]
    found = []
    for kind in KINDS.values():
        wide = kind.draws(answer, SCREEN)
        if wide is not None:
            phone = kind.draws(answer, PHONE) or wide
            found.append(Chart(name=kind.name, title=kind.title, wide=wide, phone=phone, table=data_of(wide)))
    return found


def _chart_of_table(one: "ReproducedTable") -> Chart:
    from sightline.charts.study_charts import study_chart

    wide, phone = study_chart(one.answer), study_chart(one.answer, PHONE)
    return Chart(name=one.id, title=one.answer.title, wide=wide, phone=phone, table=data_of(wide))


def chart_of(name: str, answer: Any, room: Room = SCREEN) -> Spec | None:
    """Return one chart of an answer by its name; None where the answer has no such chart.

    Raises:
        KeyError: where there is no such kind of chart.
    """
    return KINDS[name].draws(answer, room)


def _profiles(answer: Any) -> list[Profile]:
    """Return the profiles of an answer, of one task; none of any other answer."""
    if isinstance(answer, Profile):
        return [answer]
    if not isinstance(answer, Sequence) or isinstance(answer, str) or not answer:
        return []
    if not all(isinstance(one, Profile) and one.task is answer[0].task for one in answer):
        return []
    return list(answer)


def _one(answer: Any) -> Profile | None:
    found = _profiles(answer)
    return found[0] if len(found) == 1 else None


def _all_of(answer: Any, kind: type) -> bool:
    return isinstance(answer, Sequence) and bool(answer) and all(isinstance(one, kind) for one in answer)


def _time(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.profile_charts import time_chart

    return time_chart(found, room) if (found := _profiles(answer)) else None


def _memory(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.profile_charts import memory_chart

    return memory_chart(found, room) if (found := _profiles(answer)) else None


def _roofline(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.rooflines import operator_roofline

    return operator_roofline(one, room) if (one := _one(answer)) else None


def _matmuls(answer: Any, room: Room) -> Spec | None:
    if not isinstance(answer, Sequence) or not answer or not isinstance(answer[0], tuple):
        return None
    from sightline.charts.rooflines import roofline_chart
    from sightline.prediction.roofline_table import RooflineTable

    named = all(len(one) == 2 and isinstance(one[1], RooflineTable) for one in answer)
    return roofline_chart(answer, room) if named else None


def _pipeline(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.pipeline import pipeline_chart

    return pipeline_chart(one, room) if (one := _one(answer)) else None


def _scaling(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.curves import scaling_chart

    return scaling_chart(found, room) if len(found := _profiles(answer)) > 1 else None


def _pareto(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.plan_chart import front_chart
    from sightline.planning.plan_answer import PlanAnswer

    return front_chart(answer, room) if isinstance(answer, PlanAnswer) else None


def _plans(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.plan_chart import plan_chart
    from sightline.planning.plan_answer import PlanAnswer

    return plan_chart(answer, room) if isinstance(answer, PlanAnswer) else None


def _throughput_latency(answer: Any, room: Room) -> Spec | None:
    found = _profiles(answer)
    if len(found) < 2:
        return None
    if found[0].task is SERVING:
        from sightline.charts.load_charts import serving_chart

        return serving_chart(found, room)
    from sightline.charts.curves import curve_chart

    return curve_chart(found, room)


def _tornado(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.study_charts import sensitivity_chart
    from sightline.prediction.sensitivity import Sensitivity

    return sensitivity_chart(answer, room) if isinstance(answer, Sensitivity) else None


def _heat_map(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.study_charts import sweep_chart

    return sweep_chart(found, room) if len(found := _profiles(answer)) > 1 else None


def _latency(answer: Any, room: Room) -> Spec | None:
    measured = answer.measured if isinstance(answer, Replay) else None
    one = answer.profile if isinstance(answer, Replay) else _one(answer)
    if one is None or one.task is not SERVING:
        return None
    from sightline.charts.load_charts import latency_chart

    return latency_chart(one, measured, room)


def _requests(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.load_charts import replay_chart

    return replay_chart(answer.measured, answer.profile, room) if isinstance(answer, Replay) else None


def _over_time(answer: Any, room: Room) -> Spec | None:
    one = _one(answer)
    if one is None or one.task is not SERVING:
        return None
    from sightline.charts.load_charts import course_chart

    return course_chart(one, room)


def _parity(answer: Any, room: Room) -> Spec | None:
    from sightline.validation.cases import Result

    if not _all_of(answer, Result):
        return None
    from sightline.charts.accuracy import validation_chart

    return validation_chart(cast("Sequence[Result]", answer), room)


def _comparison(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.comparison_bars import comparison_bars
    from sightline.explanation.comparison import Comparison

    return comparison_bars(answer, room) if isinstance(answer, Comparison) else None


def _explanation(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.explained_bars import explained_chart
    from sightline.explanation.answer import Explanation

    return explained_chart(answer, room) if isinstance(answer, Explanation) and answer.limits else None


def _study(answer: Any, room: Room) -> Spec | None:
    from sightline.charts.study_charts import study_chart
    from sightline.exploration.study_answer import StudyAnswer

    return study_chart(answer, room) if isinstance(answer, StudyAnswer) else None


def _kinds() -> Iterator[Kind]:
    predict, simulate = "sightline predict FILE", "sightline simulate FILE"
    for name, title, answers, command, draws in (
        ("plans", "Best plans", "a plan search", "sightline plan FILE --chart plans.svg", _plans),
        ("pareto", "Pareto front", "a plan search with --pareto", "sightline plan FILE --pareto time,cost", _pareto),
        ("study", "Study", "a study", "sightline explore STUDY --chart study.svg", _study),
        ("explanation", "What limits the time", "an explanation", "sightline explain FILE --chart e.svg", _explanation),
        ("comparison", "Comparison", "a comparison", "sightline compare A B --chart both.svg", _comparison),
        (
            *("throughput-latency", "Throughput and latency", "a load at several rates, or several batch sizes"),
            *(f"{simulate} --sweep workload.arrival.rate=2,4,8 --chart curve.svg", _throughput_latency),
        ),
        (
            *("scaling", "Scaling", "predictions for three or more device counts"),
            *(f"{predict} --sweep 'cluster=8x h100,16x h100,32x h100' --chart scaling.svg", _scaling),
        ),
        ("heat-map", "Heat map", "a sweep over two keys", f"{predict} --sweep A=1,2 --sweep B=1,2", _heat_map),
        ("time", "Time by phase and module", "predictions and measurements", f"{predict} --chart time.svg", _time),
        ("memory", "Memory against capacity", "predictions and measurements", f"{predict} --chart m.svg", _memory),
        ("roofline", "Roofline", "one prediction or measurement", "sightline roofline FILE --chart r.svg", _roofline),
        ("matmuls", "Matmuls on the roofline", "sightline roofline", "sightline roofline FILE", _matmuls),
        ("pipeline", "Pipeline schedule", "one training step", f"{predict} --html report.html", _pipeline),
        ("tornado", "Sensitivity", "a sensitivity", "sightline sensitivity FILE --chart tornado.svg", _tornado),
        ("latency", "Latency distribution", "a simulated load", f"{simulate} --chart load.svg", _latency),
        (
            "over-time",
            "Requests and KV cache over time",
            "a simulated load",
            f"{simulate} --chart load.svg",
            _over_time,
        ),
        ("replay", "Measured and simulated requests", "a replay", f"{simulate} --from-run RUN", _requests),
        ("parity", "Predicted / measured", "a validation", "sightline validate --chart accuracy.svg", _parity),
    ):
        yield Kind(name=name, title=title, answers=answers, command=command, draws=draws)


KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _kinds()}
"""Kinds of charts by name, in the order in which an answer's charts are shown."""
