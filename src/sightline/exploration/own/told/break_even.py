"""Break-even: what one more step of a number may cost before it stops paying.

Work costs rent over rate. From one value of a number to the next the rate rises by a factor g, so that the same work
costs as much when the rent does too: the step pays as long as it adds less than ``rent (g - 1)``. What hosts, power and
floor space cost is part of the rent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from sightline.exploration.own.asked.numbers import TECHNOLOGY
from sightline.exploration.own.asked.reports import COST
from sightline.exploration.own.told.found import Found, Line, lines
from sightline.exploration.own.told.words import in_unit, name_of, of_view
from sightline.quantities import as_python, percent

PER: Final = {
    "B/s": (1e12, "TB/s"),
    "B": (1e9, "GB"),
    "FLOP/s": (1e12, "TFLOP/s"),
    "bit/s": (1e9, "Gbit/s"),
    "m2": (1e-6, "mm2"),
}
"""What is bought, by SI unit: the unit that a price is said for, and its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """A step from one value of a number to the next."""

    view: str
    key: str
    low: Any
    high: Any
    """Numbers; names where technology has names: another memory in place of the first."""
    gain: float
    """The rate at the higher value over that at the lower."""
    usd_per_hour: float | None
    """What the step may add to a device's rent; None where that is not known."""
    where: str

    @property
    def usd_per_hour_per_unit(self) -> float | None:
        """The same for one SI unit of the number; None of names."""
        if self.usd_per_hour is None or isinstance(self.low, str) or isinstance(self.high, str):
            return None
        return self.usd_per_hour / float(self.high - self.low)

    def to_dict(self) -> dict[str, Any]:
        """Return what an answer says."""
        return {
            "view": self.view,
            "key": self.key,
            "from": self.low,
            "to": self.high,
            "gain": self.gain,
            "usd_per_hour": self.usd_per_hour,
            "usd_per_hour_per_unit": self.usd_per_hour_per_unit,
            "where": self.where,
        }


def break_evens(found: Found) -> Iterator[BreakEven]:
    """Yield every step along the numbers of the hardware, and from the first to each other name of its technology.

    All other axes are at their first values.
    """
    for line in lines(found) if found.rate else ():
        rate, rent = line.of(found.rate), _rent(line, found)
        for i, j in _steps(line):
            gain = float(rate[j] / rate[i])
            if np.isfinite(gain):
                yield BreakEven(
                    view=line.view,
                    key=line.axis.key,
                    low=as_python(line.values[i]),
                    high=as_python(line.values[j]),
                    gain=gain,
                    usd_per_hour=None if rent is None else max(0.0, rent * (gain - 1.0)),
                    where=line.where,
                )


def _steps(line: Line) -> Iterator[tuple[int, int]]:
    """Places of the ends of all steps along a line; none of what is not bought."""
    if line.axis.key.startswith(TECHNOLOGY) and all(isinstance(one, str) for one in line.values):
        yield from ((0, place) for place in range(1, len(line.values)))
    elif line.axis.key.startswith("cluster.") and line.axis.unit in PER:
        ordered = pairwise(int(place) for place in np.argsort(line.values))
        yield from ((i, j) for i, j in ordered if line.values[j] > line.values[i])


def _rent(line: Line, found: Found) -> float | None:
    """Rent of a device at the first values of all axes, before what stated prices add."""
    price = next((axis for axis in found.axes if axis.key == "cluster.device.price"), None)
    if price is not None and not price.is_multiple:
        return float(price.values[0])
    rent = found.bases[line.view].cluster.usd_per_hour
    return None if rent is None else float(rent) * (price.values[0] if price is not None else 1.0)


_NOTHING: Final = 0.001
"""Gain below which a step brings nothing."""
_LEAST: Final = percent(_NOTHING, 1)
_MOST_SAID: Final = 4
"""Steps of a sentence."""


def sentences(found: Found, steps: Sequence[BreakEven]) -> Iterator[str]:
    """Yield a sentence for each number and view: what its steps may cost, and what stated prices come to."""
    units = {axis.key: axis.unit for axis in found.axes}
    verdicts = dict(_verdicts(found))
    groups: dict[tuple[str, str], list[BreakEven]] = {}
    for step in steps:
        groups.setdefault((step.view, step.key), []).append(step)
    nothing: dict[str, list[str]] = {}
    for (view, key), several in groups.items():
        if max(step.gain for step in several) - 1.0 < _NOTHING:
            nothing.setdefault(view, []).append(name_of(key))
            continue
        where = f", {several[0].where}" if several[0].where else ""
        said = _of_names if isinstance(several[0].low, str) else _of_numbers
        yield f"{of_view(view)}{where}: {said(several, units[key])}{verdicts.get((view, key), '')}."
    for view, names in nothing.items():
        listed = ", ".join(names)
        yield f"{of_view(view)}: no step along {listed} pays at any price (each brings less than {_LEAST})."


def _of_numbers(steps: Sequence[BreakEven], unit: str) -> str:
    """What the steps of a number may cost, and from where on none pays."""
    name = name_of(steps[0].key)
    paying = [i for i, step in enumerate(steps) if step.gain - 1.0 >= _NOTHING]
    said = [steps[paying[i]] for i in sorted({*np.linspace(0, len(paying) - 1, _MOST_SAID).round().astype(int)})]
    ends = [f"from {_value(step.low, unit)} to {_value(step.high, unit)}" for step in said]
    listed = ", ".join(f"{_worth(step, unit)} {between}" for step, between in zip(said, ends, strict=True))
    end = steps[paying[-1]]
    nothing = f"; beyond {_value(end.high, unit)} at no price (it brings less than {_LEAST})"
    beyond = "" if end is steps[-1] else nothing
    per = f" in USD/hour per {PER[unit][1]}" if end.usd_per_hour is not None else ""
    return f"{name} pays below so much more rent{per}: {listed}{beyond}"


def _worth(step: BreakEven, unit: str) -> str:
    each = step.usd_per_hour_per_unit
    return percent(step.gain - 1.0, 1) if each is None else f"{each * PER[unit][0]:.3g}"


def _value(value: Any, unit: str) -> str:
    return value if isinstance(value, str) else in_unit(value, unit)


def _of_names(steps: Sequence[BreakEven], _: str) -> str:
    """What devices of other names of a technology may cost more than those of the first."""

    def worth(step: BreakEven) -> str:
        if step.gain - 1.0 < _NOTHING:
            return f"{step.high} at no price"
        return f"{step.high} {_more(step)}"

    listed = ", ".join(map(worth, steps))
    return f"in place of {name_of(steps[0].key)} {steps[0].low}, a device pays below so much more rent: {listed}"


def _more(step: BreakEven) -> str:
    gain = percent(step.gain - 1.0, 1)
    return gain if step.usd_per_hour is None else f"{step.usd_per_hour:.2g} USD/hour ({gain})"


def _verdicts(found: Found) -> Iterator[tuple[tuple[str, str], str]]:
    """By view and key, at which value work costs least where a price is stated; the smallest of those that tie."""
    prices = {price.number.key: price for price in found.study.prices}
    for line in lines(found):
        price = prices.get(line.axis.key)
        if price is None or line.part.points is None or COST not in line.part.points.columns:
            continue
        cost, unit = line.of(COST), price.number.unit
        if not np.isfinite(cost).any() or unit not in PER:
            continue
        ties = np.flatnonzero(cost <= (1.0 + _NOTHING) * np.nanmin(cost)).tolist()
        least = min(float(line.values[i]) for i in ties)
        scale, name = PER[unit]
        rate = in_unit(price.usd_per_hour_per_unit * scale, "USD/hour")
        said = f"; at its price of {rate} per {name} work costs least at {in_unit(least, unit)}"
        yield (line.view, line.axis.key), said
