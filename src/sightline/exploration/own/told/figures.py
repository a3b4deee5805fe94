"""The pictures of a study's table: lines over one axis, a map of what binds over two, and a tornado."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sightline.exploration.answer import Figure
from sightline.exploration.own.asked.axes import Axis
from sightline.exploration.own.asked.reports import BOUND
from sightline.exploration.own.told.break_even import BreakEven
from sightline.exploration.own.told.found import Found
from sightline.exploration.own.told.words import label_of, name_of, sentence_case

_LOGARITHMIC = 4.0
"""Ratio of an axis's ends from which on it is drawn logarithmically."""


def figures_of(
    found: Found, elasticities: Mapping[str, Mapping[str, float]], steps: Sequence[BreakEven]
) -> list[Figure]:
    """Return the pictures, the one that says the most first."""
    axes = sorted((axis for axis in found.axes if len(axis.values) > 1), key=lambda axis: not axis.is_number)
    if not axes:
        return list(_tornado(found, elasticities))
    pictures = [*_maps(found, axes), *_lines(found, axes)] if len(axes) > 1 else list(_lines(found, axes))
    return [*pictures, *_tornado(found, elasticities), *_break_even(found, steps)]


def _fixed(found: Found, shown: Sequence[Axis]) -> dict[str, Any]:
    """The first values of the axes that a picture does not show."""
    keys = {axis.key for axis in shown}
    part = next(one for one in found.parts if one.points is not None)
    first = {**part.values, **{key: values[0] for key, values in part.numbers.items()}}
    return {axis.key: first[axis.key] for axis in found.axes if axis.key not in keys and len(axis.values) > 1}


def _maps(found: Found, axes: Sequence[Axis]) -> Iterator[Figure]:
    """What binds over the first two axes."""
    x, y = axes[:2]
    yield Figure(
        kind="map",
        title="What takes most of the time",
        x=x.key,
        y=(y.key, BOUND),
        panel="view" if found.has_views else "",
        log=_logarithmic(x, y),
        where=_fixed(found, (x, y)),
    )


def _lines(found: Found, axes: Sequence[Axis]) -> Iterator[Figure]:
    """The headline over the first axis, a line for each value of the second; of one axis a line for each view."""
    x, series = axes[0], axes[1] if len(axes) > 1 else None
    kind: Any = "lines" if x.is_number else "bars"
    shown = [x] if series is None else [x, series]
    both = found.has_views and series is not None
    yield Figure(
        kind=kind,
        title=f"{sentence_case(label_of(found.study.task, found.headline))} by {name_of(x.key)}",
        x=x.key,
        y=found.headline,
        series=series.key if series else "view" if found.has_views else "",
        panel="view" if both else "",
        log=_logarithmic(x),
        where=_fixed(found, shown),
    )


def _logarithmic(*axes: Axis) -> frozenset[str]:
    """Which of x and y are logarithmic."""
    return frozenset(
        name
        for name, axis in zip("xy", axes, strict=False)
        if axis.is_number and min(axis.values) > 0 and max(axis.values) / min(axis.values) >= _LOGARITHMIC
    )


def _break_even(found: Found, steps: Sequence[BreakEven]) -> Iterator[Figure]:
    """What each step along a number may add to a device's rent, of the number with the most steps."""
    known = [step for step in steps if step.usd_per_hour is not None]
    keys = [step.key for step in known]
    key = max(dict.fromkeys(keys), key=keys.count, default="")
    if keys.count(key) <= len(found.views):
        return
    shown = [step for step in known if step.key == key]
    yield Figure(
        kind="lines",
        title=f"Rent per device that the step to each {name_of(key)} may add",
        x=key,
        y="usd_per_hour",
        series="view" if found.has_views else "",
        log=frozenset({"x"}) if shown[-1].high / shown[0].high >= _LOGARITHMIC else frozenset(),
        columns={
            "view": [step.view for step in shown],
            key: [step.high for step in shown],
            "usd_per_hour": [step.usd_per_hour for step in shown],
        },
    )


def _tornado(found: Found, elasticities: Mapping[str, Mapping[str, float]]) -> Iterator[Figure]:
    """Elasticities at the base, the largest first."""
    rows = [
        (view, name_of(f"cluster.{number}"), value)
        for view, of in elasticities.items()
        for number, value in sorted(of.items(), key=lambda item: -abs(item[1]))
        if abs(value) >= 0.001
    ]
    if rows:
        views, numbers, values = zip(*rows, strict=True)
        yield Figure(
            kind="tornado",
            title=f"What the {label_of(found.study.task, found.headline)} depends on at the base",
            x="elasticity",
            y="number",
            panel="view" if found.has_views else "",
            columns={"view": views, "number": numbers, "elasticity": values},
        )
