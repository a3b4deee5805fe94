"""The pictures of a study's table: lines over one axis, maps over two, a tornado, and what may be paid."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sightline.exploration.own.axes import Axis
from sightline.exploration.own.findings import BreakEven, Found, change_of, label_of, lines, name_of, sentence_case
from sightline.exploration.own.reports import BOUND, COST
from sightline.exploration.study_answer import Column, Figure

_LOGARITHMIC: Final = 4.0
"""Ratio of an axis's ends from which on it is drawn logarithmically."""
_MOST_LINES: Final = 8
"""Lines of a picture."""
_SHOWN: Final = 2
"""Axes of a map."""
_RENT, _GAIN = "more_usd_per_hour", "work_per_usd_gain"
ABOUT: Final[Mapping[str, Column]] = {
    "elasticity": Column(label="elasticity"),
    _RENT: Column(label="extra cost", unit="USD", per="per hour"),
    _GAIN: Column(label="gain in work per dollar"),
}
"""Columns that only pictures have."""


def figures_of(
    found: Found, elasticities: Mapping[str, Mapping[str, float]], steps: Sequence[BreakEven]
) -> list[Figure]:
    """Return the pictures, the one that says the most first."""
    axes = _by_weight(found)
    if not axes:
        return list(_tornado(found, elasticities))
    maps = [*_maps(found, axes), *_paying(found, axes)] if len(axes) > 1 else []
    return [*maps, *_lines(found, axes), *_tornado(found, elasticities), *_break_even(found, steps)]


def _by_weight(found: Found) -> list[Axis]:
    """The axes with several values, first the two that move the headline most, of those numbers before names."""
    axes = [axis for axis in found.axes if len(axis.values) > 1]
    moved: dict[str, float] = {}
    for line in lines(found) if len(axes) > _SHOWN else ():
        change = change_of(line.of(found.headline))
        moved[line.axis.key] = max(change, moved.get(line.axis.key, 0.0))
    most = sorted(axes, key=lambda axis: -moved.get(axis.key, 0.0))[:_SHOWN]
    return sorted(axes, key=lambda axis: (axis not in most, not axis.is_number))


def _fixed(found: Found, shown: Sequence[Axis]) -> dict[str, Any]:
    """The first values of the axes that a picture does not show."""
    keys = {axis.key for axis in shown}
    part = next(one for one in found.parts if one.points is not None)
    first = {**part.values, **{key: values[0] for key, values in part.numbers.items()}}
    return {axis.key: first[axis.key] for axis in found.axes if axis.key not in keys and len(axis.values) > 1}


def _maps(found: Found, axes: Sequence[Axis]) -> Iterator[Figure]:
    """What binds over the two axes that matter most."""
    x, y = axes[:2]
    yield Figure(
        kind="map",
        title="Bottleneck",
        x=x.key,
        y=(y.key, BOUND),
        panel="view" if found.has_views else "",
        log=_logarithmic(x, y),
        where=_fixed(found, (x, y)),
    )


def _paying(found: Found, axes: Sequence[Axis]) -> Iterator[Figure]:
    """Where more of a priced number pays: work per dollar over that at its first value, over the first other axis."""
    priced = {price.number.key for price in found.study.prices}
    x = next((axis for axis in axes if axis.key in priced), None)
    if x is None or COST not in found.columns:
        return
    y = next(axis for axis in axes if axis is not x)
    columns, cost = found.columns, np.asarray(found.columns[COST], dtype=float)
    others = [name for name in ("view", *(axis.key for axis in axes if axis is not x)) if name in columns]
    places = np.unique(
        [np.unique(columns[name], return_inverse=True)[1] for name in others], axis=1, return_inverse=True
    )
    line, first = places[1].ravel(), np.full(len(cost), np.nan)
    starts = columns[x.key] == np.asarray(columns[x.key], dtype=float).min()
    first[line[starts]] = cost[starts]
    yield Figure(
        kind="map",
        title=f"Work per dollar relative to the lowest {name_of(x.key)}",
        x=x.key,
        y=y.key,
        series=_GAIN,
        panel="view" if found.has_views else "",
        break_even=1.0,
        where=_fixed(found, (x, y)),
        columns={**{name: columns[name] for name in (x.key, *others)}, _GAIN: first[line] / cost},
    )


def _lines(found: Found, axes: Sequence[Axis]) -> Iterator[Figure]:
    """The headline over the first axis, a line for each value of the second; of one axis a line for each view."""
    drawn = next((key for key in (found.headline, *found.study.report) if key in found.columns), None)
    if drawn is None:
        return
    x, series = axes[0], axes[1] if len(axes) > 1 else None
    kind: Any = "lines" if x.is_number else "bars"
    shown = [x] if series is None else [x, series]
    both = found.has_views and series is not None
    yield Figure(
        kind=kind,
        title=f"{sentence_case(label_of(found.study.task, drawn))} by {name_of(x.key)}",
        x=x.key,
        y=drawn,
        series=series.key if series else "view" if found.has_views else "",
        panel="view" if both else "",
        log=_logarithmic(x),
        where=_fixed(found, shown) | ({} if series is None else _chosen(found, series)),
    )


def _chosen(found: Found, series: Axis) -> dict[str, Any]:
    """Of an axis with many values those that have a line, evenly chosen."""
    if len(series.values) <= _MOST_LINES:
        return {}
    values = list(dict.fromkeys(np.asarray(found.columns[series.key]).tolist()))
    return {series.key: [values[i] for i in np.linspace(0, len(values) - 1, _MOST_LINES).round().astype(int)]}


def _logarithmic(*axes: Axis) -> frozenset[str]:
    """Which of x and y are logarithmic."""
    return frozenset(
        name
        for name, axis in zip("xy", axes, strict=False)
        if axis.is_number and min(axis.values) > 0 and max(axis.values) / min(axis.values) >= _LOGARITHMIC
    )


def _break_even(found: Found, steps: Sequence[BreakEven]) -> Iterator[Figure]:
    """What each step along a number may add to a device's rent, next to what it adds where its price is stated."""
    prices = {price.number.key: price.usd_per_hour_per_unit for price in found.study.prices}
    known = [step for step in steps if step.usd_per_hour_per_unit is not None]
    for key in dict.fromkeys(step.key for step in known):
        shown = [step for step in known if step.key == key]
        if len(shown) <= len(found.views):
            continue
        ends = dict.fromkeys((step.low, step.high) for step in shown)
        added = [(high, prices[key] * (high - low)) for low, high in ends if key in prices]
        named = [(f"may cost{f', {step.view} view' if found.has_views else ''}", step) for step in shown]
        yield Figure(
            kind="lines",
            title=f"Extra device cost that each step of {name_of(key)} may add",
            x=key,
            y=_RENT,
            series="rent",
            log=frozenset({"x"}) if shown[-1].high / shown[0].high >= _LOGARITHMIC else frozenset(),
            columns={
                "rent": [*(name for name, _ in named), *("costs at its price" for _ in added)],
                key: [*(step.high for step in shown), *(high for high, _ in added)],
                _RENT: [*(step.usd_per_hour for step in shown), *(usd for _, usd in added)],
            },
        )


def _tornado(found: Found, elasticities: Mapping[str, Mapping[str, float]]) -> Iterator[Figure]:
    """Elasticities at the base, the largest first."""
    rows = [
        (view, name_of(f"cluster.{number}"), value)
        for view in found.views
        for number, value in sorted(elasticities.get(view, {}).items(), key=lambda item: -abs(item[1]))
        if abs(value) >= 0.001
    ]
    if rows:
        views, numbers, values = zip(*rows, strict=True)
        yield Figure(
            kind="tornado",
            title=f"Sensitivity of the {label_of(found.study.task, found.headline)} at the base",
            x="number",
            y="elasticity",
            panel="view" if found.has_views else "",
            columns={"view": views, "number": numbers, "elasticity": values},
        )
