"""The file of a study: its keys, read and checked, every mistake at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final, cast, get_args

from sightline import profile
from sightline.errors import InputError
from sightline.exploration.footprint import Electricity, read_electricity
from sightline.exploration.own.asked.axes import Axis, read_axes
from sightline.exploration.own.asked.derived import DESIGN, MADE
from sightline.exploration.own.asked.numbers import TECHNOLOGY, number_keys, stated_device
from sightline.exploration.own.asked.prices import Price, read_prices
from sightline.exploration.own.asked.reports import COST, MEMORY, THROUGHPUT, read_reports
from sightline.exploration.own.asked.search_keys import read_designs, read_search, split_search
from sightline.exploration.request import StudyRequest, Views
from sightline.loading.checks import Complaints, Keys, Needed, check, with_value
from sightline.loading.sources import Source, read_source, stated_path
from sightline.quantities import show
from sightline.validators import anything, choice, text


def _view(value: Any) -> str:
    """How devices are seen: a kind that says of a list of views that both are asked for."""
    if isinstance(value, list | tuple):
        raise InputError(f"is {show(value)}; allowed: ideal, calibrated or both")
    return str(choice(*get_args(Views))(value))


STUDY: Final[Keys] = {
    "study": text,
    "base": Needed(anything, "a scenario: a mapping, or the path of a scenario file"),
    "axes": Needed(
        anything, "dotted keys of the base, each with values, such as cluster.network.latency: [1 us, 5 us]"
    ),
    "view": _view,
    **dict.fromkeys(("search", "report", "prices", "electricity"), anything),
}
"""Keys of a study file."""
MOST_AXES: Final = 8
MOST_POINTS: Final = 5_000_000
MOST_READ: Final = 2_000
"""Scenarios that are read one after the other, for what is no number."""
MOST_SIMULATED: Final = 200
"""Loads that are simulated."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyFile:
    """A study as it was asked for."""

    name: str
    base: Mapping[str, Any]
    """A scenario's mapping."""
    folder: Path
    """What paths in the base are relative to."""
    axes: Sequence[Axis]
    view: Views
    search: tuple[str, ...] = ()
    """Fields of the plan that are searched at every point."""
    designs: Sequence[Axis] = ()
    """What is searched of the device's technology."""
    report: tuple[str, ...] = ()
    """Result keys, in order."""
    prices: Sequence[Price] = ()
    electricity: Electricity = field(default_factory=Electricity)
    """What carbon is worked out with."""

    @property
    def task(self) -> str:
        """The base's task."""
        return task_of(self.base)

    @property
    def whole(self) -> str:
        """The time of all work, by which points are compared."""
        task = profile.task_of(self.task)
        return "" if task is None else task.whole

    @property
    def keys(self) -> tuple[str, ...]:
        """Results that are worked out: those reported, and those that points are compared by."""
        task = profile.task_of(self.task)
        rate = THROUGHPUT.get(task.name) if task is not None else None
        memory = MEMORY if self.designs else None
        cost = COST if self.prices and rate else None
        design = DESIGN if self.designs else ()
        return tuple(dict.fromkeys(key for key in (*self.report, self.whole, rate, memory, cost, *design) if key))

    @property
    def points(self) -> int:
        """Points of one view."""
        return prod(len(axis.values) for axis in self.axes)


def task_of(base: Mapping[str, Any]) -> str:
    """Return a scenario's task."""
    workload = base.get("workload")
    return str(workload.get("task", "pretrain")) if isinstance(workload, Mapping) else "pretrain"


def read_study(source: object, request: StudyRequest) -> StudyFile:
    """Return the study of a source, as `explore` takes it, with what the request differs in.

    Raises:
        InputError: every mistake.
    """
    read = read_source(source)
    if len(read.documents) != 1 or not isinstance(read.documents[0].mapping, Mapping):
        raise InputError("a study is one mapping with the keys base and axes; see docs/exploring.md")
    document, complaints = read.documents[0], Complaints()
    stated = check(STUDY, _overridden(document.mapping, request.overrides), "", complaints).values
    base, folder = complaints.note(_base, stated.get("base"), read, request.overrides) or ({}, read.folder)
    numbers = number_keys(task_of(base))
    axes = read_axes(stated["axes"], numbers, complaints) if "axes" in stated else []
    axes = [axis for axis in axes if axis.key not in request.overrides]
    plans, devices = split_search(stated.get("search"))
    search = read_search(plans, base, task_of(base), axes, complaints)
    searched_designs = read_designs(devices, axes, task_of(base), complaints)
    axes = _laid_out(axes, task_of(base), complaints, is_searched=bool(search))
    view = cast("Views", request.view or stated.get("view", "calibrated"))
    _check_view(view, task_of(base), axes, complaints)
    study = StudyFile(
        name=stated.get("study") or (Path(document.place).stem if document.place else "study"),
        base=base,
        folder=folder,
        axes=[axis.shortened() for axis in axes] if request.quick else axes,
        view=view,
        search=search,
        designs=searched_designs,
        report=read_reports(stated.get("report"), task_of(base), complaints) if base else (),
        prices=read_prices(stated.get("prices"), numbers, complaints),
        electricity=read_electricity(stated.get("electricity"), complaints),
    )
    _check_made(study, complaints)
    _check_size(study, complaints)
    if complaints.problems:
        place = f"{document.place}: " if document.place else ""
        raise InputError([place + problem for problem in complaints.problems])
    return study


def _laid_out(axes: list[Axis], task: str, complaints: Complaints, *, is_searched: bool) -> list[Axis]:
    """The axes, of which those are no arrays that a simulation, or a search with axes of its own, does not take so."""
    if task == "serve":
        multiples = [axis.key for axis in axes if axis.is_multiple]
        complaints.add(*(f"axes.{key} has multiples; allowed where a load is simulated: values" for key in multiples))
        return [axis.one_by_one() for axis in axes]
    return [axis.one_by_one() if is_searched and not axis.key.startswith("cluster.") else axis for axis in axes]


def _overridden(stated: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A study's mapping with what ``--set`` says of the study itself; other keys are the base's."""
    out = dict(stated)
    for key, value in overrides.items():
        head, _, below = key.partition(".")
        if head == "axes" and below:
            axes = out.get("axes")
            out["axes"] = {**(axes if isinstance(axes, Mapping) else {}), below: value}
        elif head in STUDY and head != "base":
            out = with_value(out, key, value)
    return out


def _base(stated: Any, read: Source, overrides: Mapping[str, Any]) -> tuple[dict[str, Any], Path]:
    """The base's mapping with what is set, and what its paths are relative to."""
    folder = read.folder
    if isinstance(stated, str):
        path = stated_path(folder, stated)
        source = read_source(path)
        if len(source.documents) != 1:
            raise InputError(f"base is {show(stated)}, {len(source.documents)} scenarios; allowed: one")
        stated, folder = source.documents[0].mapping, source.folder
    if stated is None:
        return {}, folder
    if not isinstance(stated, Mapping):
        raise InputError(f"base is {show(stated)}; allowed: {_needed('base')}")
    if stated.get("sweep"):
        raise InputError("base has a sweep; allowed: one scenario, whose varied keys are axes of the study")
    base = {key: value for key, value in stated.items() if key not in ("sweep", "measured")}
    for key, value in overrides.items():
        if key.partition(".")[0] not in STUDY or key.startswith("base."):
            base = with_value(base, key.removeprefix("base."), value)
    return base, folder


def _needed(key: str) -> str:
    kind = STUDY[key]
    return kind.what if isinstance(kind, Needed) else ""


def _check_view(view: Views, task: str, axes: Sequence[Axis], complaints: Complaints) -> None:
    """Note a view that the study's task or axes do not have."""
    if view == "calibrated":
        return
    if task == "operator":
        complaints.add(f"view is {view}; allowed for workload.task operator: calibrated, as no framework runs it")
    if any(axis.key in ("plan", "plan.framework") for axis in axes):
        complaints.add(f"axes has plan.framework, which view {view} replaces; allowed: view calibrated")


def _check_made(study: StudyFile, complaints: Complaints) -> None:
    """Note results of making a device where none is made of technology."""
    varied = any(axis.key.startswith(TECHNOLOGY) or axis.key in ("cluster", "cluster.device") for axis in study.axes)
    if varied or study.designs or stated_device(study.base).get("technology") is not None:
        return
    complaints.add(
        *(f"report names {show(key)}, which needs a device of {TECHNOLOGY}" for key in study.report if key in MADE)
    )


def _check_size(study: StudyFile, complaints: Complaints) -> None:
    """Note too many axes or points."""
    axes = study.axes
    if len(axes) > MOST_AXES:
        complaints.add(f"axes has {len(axes)} keys; allowed: up to {MOST_AXES}")
    tried = prod(len(axis.values) for axis in study.designs)
    if study.points * tried > MOST_POINTS:
        each = f", with {tried:,} devices each" if tried > 1 else ""
        complaints.add(f"axes stand for {study.points:,} points{each}; allowed: up to {MOST_POINTS:,}")
    loaded = prod(len(axis.values) for axis in axes if axis.number is None)
    most, what = (MOST_SIMULATED, "simulated") if study.task == "serve" else (MOST_READ, "read one by one")
    if loaded > most:
        names = ", ".join(axis.key for axis in axes if axis.number is None)
        complaints.add(f"axes stand for {loaded:,} scenarios that are {what} ({names}); allowed: up to {most:,}")
