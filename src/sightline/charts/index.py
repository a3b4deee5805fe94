"""Every kind of chart: its name, what it shows and of which answers, and the charts that an answer has.

The command line, the report, the page and notebooks ask here which charts there are, and need to know none by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sightline.charts.drawing import PHONE, SCREEN, Room
from sightline.charts.rendering import data_of
from sightline.on_demand import named
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
    takes: Callable[[Any], tuple[Any, ...] | None] = field(repr=False)
    """Returns what is drawn of an answer; None where the answer is none of those."""
    function: str
    """Module and function that draw it."""

    def draws(self, answer: Any, room: Room = SCREEN) -> Spec | None:
        """Return the specification of an answer, None where the answer has nothing for it to show."""
        taken = self.takes(answer)
        if taken is None:
            return None
        spec: Spec | None = named(f"sightline.charts.{self.function}")(*taken, room)
        return spec


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


Taken = tuple[Any, ...] | None


def _all(answer: Any) -> list[Profile]:
    """The profiles of an answer, of one task; none of any other answer."""
    if isinstance(answer, Profile):
        return [answer]
    if not _is_sequence_of(answer, Profile) or any(one.task is not answer[0].task for one in answer):
        return []
    return list(answer)


def _is_sequence_of(answer: Any, kind: type) -> bool:
    return isinstance(answer, Sequence) and bool(answer) and all(isinstance(one, kind) for one in answer)


def _profiles(answer: Any) -> Taken:
    return (profiles,) if (profiles := _all(answer)) else None


def _several(answer: Any) -> Taken:
    return (profiles,) if len(profiles := _all(answer)) > 1 else None


def _one(answer: Any) -> Taken:
    return (profiles[0],) if len(profiles := _all(answer)) == 1 else None


def _load(answer: Any) -> Taken:
    return one if (one := _one(answer)) and one[0].task is SERVING else None


def _latencies(answer: Any) -> Taken:
    if isinstance(answer, Replay):
        return answer.profile, answer.measured
    return (*one, None) if (one := _load(answer)) else None


def _replay(answer: Any) -> Taken:
    return (answer.measured, answer.profile) if isinstance(answer, Replay) else None


def _results(answer: Any) -> Taken:
    return (answer,) if _is_sequence_of(answer, named("sightline.validation.cases:Result")) else None


def _tables(answer: Any) -> Taken:
    if not _is_sequence_of(answer, tuple):
        return None
    table = named("sightline.prediction.roofline_table:RooflineTable")
    return (answer,) if all(len(one) == 2 and isinstance(one[1], table) for one in answer) else None


def _explanation(answer: Any) -> Taken:
    kind = named("sightline.explanation.answer:Explanation")
    return (answer,) if isinstance(answer, kind) and answer.limits else None


def _any(kind: str) -> Callable[[Any], Taken]:
    """Return what takes answers of a class, named by its module and name."""
    return lambda answer: (answer,) if isinstance(answer, named(kind)) else None


_plan = _any("sightline.planning.plan_answer:PlanAnswer")
_comparison = _any("sightline.explanation.comparison:Comparison")
_study = _any("sightline.exploration.study_answer:StudyAnswer")
_sensitivity = _any("sightline.prediction.sensitivity:Sensitivity")
KINDS: Mapping[str, Kind] = {
    name: Kind(name=name, title=title, takes=takes, function=function)
    for name, title, takes, function in (
        ("plans", "Best plans", _plan, "plan_chart:plan_chart"),
        ("pareto", "Pareto front", _plan, "plan_chart:front_chart"),
        ("study", "Study", _study, "study_charts:study_chart"),
        ("explanation", "What limits the time", _explanation, "explanation_bars:explained_chart"),
        ("comparison", "Comparison", _comparison, "explanation_bars:comparison_bars"),
        ("throughput-latency", "Throughput and latency", _several, "load_charts:throughput_chart"),
        ("scaling", "Scaling", _several, "curves:scaling_chart"),
        ("heat-map", "Heat map", _several, "study_charts:sweep_chart"),
        ("time", "Time by phase and module", _profiles, "profile_charts:time_chart"),
        ("memory", "Memory against capacity", _profiles, "profile_charts:memory_chart"),
        ("roofline", "Roofline", _one, "rooflines:operator_roofline"),
        ("matmuls", "Matmuls on the roofline", _tables, "rooflines:roofline_chart"),
        ("pipeline", "Pipeline schedule", _one, "pipeline:pipeline_chart"),
        ("tornado", "Sensitivity", _sensitivity, "study_charts:sensitivity_chart"),
        ("latency", "Latency distribution", _latencies, "load_charts:latency_chart"),
        ("over-time", "Requests and KV cache over time", _load, "load_charts:course_chart"),
        ("replay", "Measured and simulated requests", _replay, "load_charts:replay_chart"),
        ("parity", "Predicted / measured", _results, "accuracy:validation_chart"),
    )
}
"""Kinds of charts by name, in the order in which an answer's charts are shown."""
