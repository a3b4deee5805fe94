"""The file of a study: its keys, read and checked, every mistake at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any, Final, cast, get_args

import numpy as np

from sightline import profile
from sightline.errors import InputError, nearest, prefixed
from sightline.exploration.base import StudyRequest, Views
from sightline.exploration.footprint import Electricity, read_electricity
from sightline.exploration.own.axes import (
    SPLIT,
    TECHNOLOGY,
    TRAINING_TASKS,
    Axis,
    NumberKey,
    number_keys,
    read_axes,
    stated_device,
    technology_key,
)
from sightline.exploration.own.reports import COST, DESIGN, MADE, MEMORY, THROUGHPUT, read_reports
from sightline.loading.checks import Complaints, check, with_value
from sightline.loading.loader import Asked
from sightline.loading.sources import Source, read_source, stated_path
from sightline.quantities import USD_PER_HOUR, parse_quantity, show
from sightline.scenario.space import GENERATION_FIELDS, TRAINING_FIELDS
from sightline.technology.budget import PARTS
from sightline.validators import Keys, Needed, anything, choice, text

_FORM = "USD/hour per unit, such as '0.25 USD/hour per TB/s'"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Price:
    """What a number adds to the rent of a device."""

    number: NumberKey
    usd_per_hour_per_unit: float
    """For one SI unit."""


def read_prices(stated: object, numbers: Mapping[str, NumberKey], complaints: Complaints) -> list[Price]:
    """Return the prices that a study states, mistakes noted."""
    if stated is None:
        return []
    if not isinstance(stated, Mapping):
        complaints.add(f"prices is {show(stated)}; allowed: dotted keys, each with {_FORM}")
        return []
    priced = {key: one for key, one in numbers.items() if key.startswith("cluster.") and key != "cluster.device.price"}
    found = []
    for key, value in stated.items():
        if key not in priced:
            complaints.add(f"prices.{key} is not a number in the cluster; allowed: "
                f"{', '.join(priced)}{nearest(key, tuple(priced))}")  # fmt: skip
            continue
        rate = complaints.note(_rate, f"prices.{key}", value, priced[key])
        found += [] if rate is None else [Price(number=priced[key], usd_per_hour_per_unit=rate)]
    return found


def _rate(place: str, value: object, number: NumberKey) -> float:
    """USD per hour for one SI unit of a number, of a text such as ``0.25 USD/hour per TB/s``."""
    money, per, unit = value.rpartition(" per ") if isinstance(value, str) else ("", "", "")
    if not per:
        raise InputError(f"{place} is {show(value)}; allowed: {_FORM}")
    one = unit if unit[:1].isdigit() else f"1 {unit}"
    with prefixed(f"{place} "):
        return parse_quantity(money, USD_PER_HOUR) / float(number.read(one))


def with_prices(scenario: Asked, base: Asked, prices: Sequence[Price]) -> Asked:
    """Return a scenario whose devices cost what their numbers add to the rent of the base's.

    Raises:
        InputError: the base's device has no price.
    """
    device = base.cluster.device
    rent: Any = scenario.cluster.device.usd_per_hour
    if not prices:
        return scenario
    if rent is None:
        raise InputError(
            f"prices add to the price of {device.name}, which is not in the catalog; set cluster.device.price"
        )
    for price in prices:
        more = price.number.get(scenario) - price.number.get(base)
        rent = rent + price.usd_per_hour_per_unit * more
    return replace(
        scenario, cluster=replace(scenario.cluster, device=replace(scenario.cluster.device, usd_per_hour=rent))
    )


def _spread(low: float, high: float, count: int) -> tuple[float, ...]:
    return tuple(float(f"{value:.3g}") for value in np.geomspace(low, high, count))


_SHARES: Final = _spread(0.02, 0.8, 20)
"""Of the area of all dies; each value is the same multiple of the one before, as of those below."""
_OTHERS: Final[Mapping[str, tuple[Any, ...]]] = {
    f"{TECHNOLOGY}.stacks": tuple(range(1, 13)),
    f"{TECHNOLOGY}.frequency": _spread(0.4e9, 3.2e9, 19),
    f"{TECHNOLOGY}.voltage": _spread(0.4, 1.1, 11),
}


def designs() -> tuple[str, ...]:
    """Return the keys of a device's technology that may be searched."""
    return (*(f"{TECHNOLOGY}.{SPLIT}{part}" for part in PARTS), *_OTHERS)


def design_axis(key: str) -> Axis:
    """Return the axis of a key that is searched."""
    number = technology_key(key)
    unit = number.unit if number else ""
    return Axis(key=key, values=_OTHERS.get(key, _SHARES), number=number, unit=unit, is_searched=True)


def split_search(stated: Any) -> tuple[Any, list[str]]:
    """Return what a study searches of the plan, as it is stated, and the keys of the device's technology."""
    named = [stated] if isinstance(stated, str) else stated
    if not isinstance(named, list | tuple):
        return stated, []
    devices = [name for name in named if isinstance(name, str) and name.startswith("cluster.")]
    return [name for name in named if name not in devices], devices


def read_designs(names: Sequence[str], axes: Sequence[Axis], task: str, complaints: Complaints) -> list[Axis]:
    """Return the axes of the device's technology that are searched."""
    if not names:
        return []
    known, varied = designs(), [axis.key for axis in axes]
    if task == "serve":
        complaints.add("search applies to training and generation, not to workload.task 'serve'")
    wrong = [name for name in names if name not in known]
    complaints.add(
        *(f"search has {show(name)}; allowed for a device: {', '.join(known)}{nearest(name, known)}" for name in wrong)
    )
    complaints.add(*(f"search has {show(name)}, which is also an axis; remove it from one of them"
                     for name in names if name in varied))  # fmt: skip
    return [design_axis(name) for name in dict.fromkeys(names) if name in known and name not in varied]


def read_search(
    stated: Any, base: Mapping[str, Any], task: str, axes: Sequence[Axis], complaints: Complaints
) -> tuple[str, ...]:
    """Return the fields of the plan that are searched: those that are named, and a micro-batch that nobody states."""
    plan = base.get("plan")
    is_open = task in TRAINING_TASKS and not (isinstance(plan, Mapping) and plan.get("micro_batch"))
    usual = ("micro_batch",) if is_open and all(axis.key != "plan.micro_batch" for axis in axes) else ()
    if stated is None or stated == []:
        return usual
    named = [stated] if isinstance(stated, str) else stated
    if task not in (*TRAINING_TASKS, "generate"):
        complaints.add(f"search applies to training and generation, not to workload.task {show(task)}")
        return ()
    fields: tuple[str, ...] = GENERATION_FIELDS if task == "generate" else TRAINING_FIELDS
    if not isinstance(named, list | tuple):
        complaints.add(f"search is {show(stated)}; allowed: a list of {', '.join(fields)}")
        return ()
    names = [str(name).removeprefix("plan.") for name in named]
    wrong = [name for name in names if name not in fields]
    complaints.add(*(f"search has {show(name)}; allowed: {', '.join(fields)}{nearest(name, fields)}" for name in wrong))
    varied = [name for name in names if any(axis.key == f"plan.{name}" for axis in axes)]
    complaints.add(*(f"search has {show(name)}, which is also an axis; remove it from one of them" for name in varied))
    return tuple(dict.fromkeys((*(name for name in names if name in fields), *usual)))


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
        complaints.add(*(f"axes.{key} has multiples; allowed for serving: values" for key in multiples))
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
            raise InputError(f"base is {show(stated)}, which has {len(source.documents)} scenarios; allowed: one")
        stated, folder = source.documents[0].mapping, source.folder
    if stated is None:
        return {}, folder
    if not isinstance(stated, Mapping):
        raise InputError(f"base is {show(stated)}; allowed: {_needed('base')}")
    if stated.get("sweep"):
        raise InputError("base has a sweep; allowed: one scenario (vary keys with axes)")
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
        complaints.add(f"view is {view}; allowed for workload.task operator: calibrated")
    if any(axis.key in ("plan", "plan.framework") for axis in axes):
        complaints.add(f"axes has plan.framework, which requires view calibrated, not {view}")


def _check_made(study: StudyFile, complaints: Complaints) -> None:
    """Note results of making a device where none is made of technology."""
    varied = any(axis.key.startswith(TECHNOLOGY) or axis.key in ("cluster", "cluster.device") for axis in study.axes)
    if varied or study.designs or stated_device(study.base).get("technology") is not None:
        return
    complaints.add(
        *(f"report has {show(key)}, which requires a device with {TECHNOLOGY}" for key in study.report if key in MADE)
    )


def _check_size(study: StudyFile, complaints: Complaints) -> None:
    """Note too many axes or points."""
    axes = study.axes
    if len(axes) > MOST_AXES:
        complaints.add(f"axes has {len(axes)} keys; allowed: up to {MOST_AXES}")
    tried = prod(len(axis.values) for axis in study.designs)
    if study.points * tried > MOST_POINTS:
        each = f", with {tried:,} devices each" if tried > 1 else ""
        complaints.add(f"axes have {study.points:,} points{each}; allowed: up to {MOST_POINTS:,}")
    loaded = prod(len(axis.values) for axis in axes if axis.number is None)
    most, what = (MOST_SIMULATED, "simulated") if study.task == "serve" else (MOST_READ, "read individually")
    if loaded > most:
        names = ", ".join(axis.key for axis in axes if axis.number is None)
        complaints.add(f"axes have {loaded:,} scenarios that are {what} ({names}); allowed: up to {most:,}")
