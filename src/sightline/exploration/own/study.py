"""A study of one's own from its file to its answer."""

from collections.abc import Mapping, Sequence
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.exploration.base import VIEWS, StudyRequest, in_view
from sightline.exploration.footprint import Electricity
from sightline.exploration.own import grid
from sightline.exploration.own.axes import NO_PLAN, Axis, Cell, Impossible, Open, Read, Reasons, cells, loaded
from sightline.exploration.own.fastest import best_designs, count_without, devices_each
from sightline.exploration.own.findings import Found
from sightline.exploration.own.narrative import told
from sightline.exploration.own.request import StudyFile, read_study
from sightline.exploration.run import said_to_be_quick
from sightline.exploration.study_answer import StudyAnswer, View
from sightline.loading.checks import Complaints
from sightline.loading.loader import Asked
from sightline.prediction import needs_equal_devices
from sightline.profile import Profile
from sightline.progress import Progress
from sightline.scenario import ServingScenario
from sightline.scenario.space import Space, freed


def own_study(source: object, request: StudyRequest) -> StudyAnswer:
    """Return the answer of a study of one's own.

    Raises:
        InputError: every mistake in the study's file and its scenarios.
    """
    study = read_study(source, request)
    views: tuple[View, ...] = VIEWS if study.view == "both" else (study.view,)
    numbers = [axis for axis in study.axes if axis.number is not None]
    read = _read(study, views, numbers)
    bases = {view: _scenario(asked) for view, _, asked in reversed(read) if not isinstance(asked, Impossible)}
    reasons = Reasons()
    request.progress.begin(study.points * len(views) * devices_each(study.designs), "exploring")
    parts = [_part(study, view, cell, asked, numbers, reasons, request.progress) for view, cell, asked in read]
    axes = [axis for axis in study.axes if axis.number is None] + numbers
    if set(reasons.counts) == {NO_PLAN} and reasons.counts[NO_PLAN] == study.points * len(views):
        raise InputError(NO_PLAN)
    if request.progress.cancelled:  # how far it came is told in points, whatever was tried for each
        request.progress.begin(study.points * len(views), "exploring")
        request.progress.advance(sum(int(part.points.done.sum()) for part in parts if part.points is not None))
    columns = grid.columns_of(parts, axes, study.report, has_views=len(views) > 1)
    found = Found(
        study=study,
        axes=axes,
        views=views,
        columns=columns,
        parts=parts,
        reasons=reasons.counts,
        bases=bases,
        stopped=request.progress.cancelled,
    )
    answer = told(found)
    # Values that were typed are all there.
    return said_to_be_quick(answer) if request.quick and any(axis.is_range for axis in study.axes) else answer


_MOST_CHECKED = 32
"""Scenarios that are read before a study is run."""


def check_study(source: object, request: StudyRequest, most: int) -> None:
    """Raise `InputError` with the mistakes of a study of one's own that show without running it.

    Args:
        source: As `own_study` takes it.
        request: What is asked.
        most: Points that it may have, with the devices that are tried at each.
    """
    study = read_study(source, request)
    views: tuple[View, ...] = VIEWS if study.view == "both" else (study.view,)
    each = devices_each(study.designs)
    if (count := study.points * len(views) * each) > most:
        tried = f", with {each:,} devices searched at each" if each > 1 else ""
        raise InputError(f"axes have {count:,} points{tried}; allowed: up to {most:,}")
    _read(study, views, [axis for axis in study.axes if axis.number is not None], _MOST_CHECKED)


def _read(
    study: StudyFile, views: Sequence[View], numbers: Sequence[Axis], most: int | None = None
) -> list[tuple[View, Cell, Read]]:
    """The scenario of every cell and view, or of the first ``most`` cells of each view, or why it cannot be.

    Raises:
        InputError: every mistake of any, or that none can be.
    """
    complaints = Complaints()
    others = [axis for axis in study.axes if axis.number is None]
    is_searched = bool(study.search) and study.task != "generate"
    found: list[tuple[View, Cell, Read]] = []
    for view in views:
        for cell in islice(cells(in_view(study.base, view), others), most):
            asked = loaded(cell, numbers, study.folder, complaints, free=is_searched)
            if asked is not None:
                found.append((view, cell, asked))
            if numbers and asked is not None and not isinstance(asked, Impossible):
                complaints.note(needs_equal_devices, _scenario(asked).cluster, "axes over the numbers of a device")
    complaints.raise_any()
    reasons = [asked.reason for _, _, asked in found if isinstance(asked, Impossible)]
    if reasons and len(reasons) == len(found) and (most is None or len(found) < most):
        raise InputError(list(dict.fromkeys(reasons)))
    return found


def _scenario(asked: Open) -> Asked:
    return asked.scenario if isinstance(asked, Space) else asked


def _part(
    study: StudyFile, view: View, cell: Cell, asked: Read, numbers: Sequence[Axis], reasons: Reasons, progress: Progress
) -> grid.Part:
    """The points of a cell."""
    count = prod(len(axis.values) for axis in numbers)
    if isinstance(asked, Impossible):
        reasons.add(asked.reason, count)
        progress.advance(count)
        return grid.Part(view=view, values=cell.values, numbers=_values(None, numbers), points=None)
    devices = grid.devices_of(cell.mapping, numbers)
    points = grid.points_of(numbers)
    if not progress.cancelled:
        points = _points(study, cell, asked, numbers, devices, reasons, progress)
    made = None if study.designs else devices
    return grid.Part(
        view=view, values=cell.values, numbers=_values(_scenario(asked), numbers), points=points, devices=made
    )


def _points(
    study: StudyFile,
    cell: Cell,
    asked: Open,
    numbers: Sequence[Axis],
    devices: grid.Devices | None,
    reasons: Reasons,
    progress: Progress,
) -> grid.Points:
    if study.designs:
        plans, grids = Reasons(), []

        def tried(axes: Sequence[Axis], around: grid.Around) -> grid.Points:
            whole = [*numbers, *axes]
            made = grid.devices_of(cell.mapping, whole, around)
            grids.append(made)
            return _varied(study, cell, asked, whole, made, plans, progress)

        best = best_designs(tried, study.designs, study.whole)
        if grids[0] is not None:
            count_without(best, study.whole, grids[0], plans, reasons)
        return best
    if devices is not None:
        grid.count_reasons(devices, tuple(len(axis.values) for axis in numbers), reasons)
    return _varied(study, cell, asked, numbers, devices, reasons, progress)


def _varied(
    study: StudyFile,
    cell: Cell,
    asked: Open,
    numbers: Sequence[Axis],
    devices: grid.Devices | None,
    reasons: Reasons,
    progress: Progress,
) -> grid.Points:
    """The points of all numbers, and of what is searched of the device."""
    base, electricity = _scenario(asked), study.electricity
    varied = grid.Variation(base=base, axes=numbers, prices=study.prices, electricity=electricity, devices=devices)
    if isinstance(varied.base, ServingScenario):
        points = _simulated(varied.base, study.keys, electricity, progress)
    elif isinstance(asked, Space):
        from sightline.exploration.own.fastest import search_points

        points = search_points(freed(asked, study.search), varied, study.keys, reasons, progress)
    elif study.search:
        points = _planned(varied, study.search, study.keys, reasons, progress)
    else:
        plan = cell.mapping.get("plan")
        states = isinstance(plan, Mapping) and plan.get("data_parallel") is not None
        states |= any(axis.key == "plan.data_parallel" for axis in numbers)
        points = grid.evaluate(varied, study.keys, replicas_stated=states, reasons=reasons, progress=progress)
    if devices is not None:
        _put_made(points, devices, study.keys)
    return points


def _put_made(points: grid.Points, devices: grid.Devices, keys: Sequence[str]) -> None:
    """Put what making the devices comes to into the columns of keys that ask for it."""
    there = np.broadcast_to(devices.possible, points.shape) & points.done
    points.columns |= {key: np.where(there, of, np.nan) for key, of in devices.made.items() if key in keys}


def _simulated(
    scenario: ServingScenario, keys: Sequence[str], electricity: Electricity, progress: Progress
) -> grid.Points:
    """The one point of a load."""
    from sightline.simulation.simulate import simulate

    points = grid.points_of([])
    grid.put_profile(points, (), simulate(scenario, intervals=False), keys, True, electricity)
    points.done[()] = True
    progress.advance()
    return points


def _planned(
    varied: grid.Variation, search: Sequence[str], keys: Sequence[str], reasons: Reasons, progress: Progress
) -> grid.Points:
    """The points of generation, each with the plan that generates most tokens per second."""
    from sightline.planning.search import plan

    points = grid.points_of(varied.axes)
    for place in np.ndindex(points.shape):
        if progress.cancelled:
            break
        index: grid.Index = tuple(slice(i, i + 1) for i in place)
        if np.all(varied.buildable(index)):
            point = grid.as_scalars(varied.at(index))
            answer = plan(point, free=search, objective="throughput", top=1, launchable=False)
            if answer.plans:
                grid.put_profile(points, index, answer.plans[0].profile, keys, True, varied.electricity)
                _put_plan(points, place, answer.plans[0].profile, search)
            else:
                reasons.add("no searched plan fits")
        points.done[index] = True
        progress.advance()
    return points


def _put_plan(points: grid.Points, place: tuple[int, ...], profile: Profile, names: Sequence[str]) -> None:
    """Put what a search of generation found into the columns of its fields."""
    plan = profile.scenario.plan.to_dict()
    for name in names:
        value = plan.get(name)
        column = points.columns.setdefault(f"plan.{name}", np.full(points.shape, "", dtype="<U32"))
        column[place] = "" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)


def _values(base: Any, numbers: Sequence[Axis]) -> dict[str, Sequence[float]]:
    """The axes' values in SI units; multiples times the base's number, of all peaks the plan's own."""
    return {axis.key: _si(base, axis) for axis in numbers}


def _si(base: Any, axis: Axis) -> Sequence[float]:
    if not axis.is_multiple or axis.number is None or base is None:
        return axis.values
    number = axis.number.get(base)
    if isinstance(number, Mapping):
        number = number.get(getattr(base.plan, "dtype", ""), next(iter(number.values()))) if number else np.nan
    return [np.nan if number is None else float(number * one) for one in axis.values]
