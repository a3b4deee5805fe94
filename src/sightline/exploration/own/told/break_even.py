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

from sightline.exploration.own.told.found import Found, Line, lines
from sightline.exploration.own.told.words import in_unit, name_of
from sightline.exploration.words import percent

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
    low: float
    high: float
    gain: float
    """The rate at the higher value over that at the lower."""
    usd_per_hour: float | None
    """What the step may add to a device's rent; None where that is not known."""
    where: str

    @property
    def usd_per_hour_per_unit(self) -> float | None:
        """The same for one SI unit of the number."""
        return None if self.usd_per_hour is None else self.usd_per_hour / (self.high - self.low)

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
    """Yield every step along the numbers of the hardware, all other axes at their first values."""
    for line in lines(found) if found.rate else ():
        key = line.axis.key
        if not key.startswith("cluster.") or line.axis.unit not in PER:
            continue
        rate, rent = line.of(found.rate), _rent(line, found)
        for i, j in pairwise(np.argsort(line.values)):
            gain = float(rate[j] / rate[i])
            if np.isfinite(gain) and line.values[j] > line.values[i]:
                yield BreakEven(
                    view=line.view,
                    key=key,
                    low=float(line.values[i]),
                    high=float(line.values[j]),
                    gain=gain,
                    usd_per_hour=None if rent is None else max(0.0, rent * (gain - 1.0)),
                    where=line.where,
                )


def _rent(line: Line, found: Found) -> float | None:
    """Rent of a device at the first values of all axes, before what stated prices add."""
    price = next((axis for axis in found.axes if axis.key == "cluster.device.price"), None)
    if price is not None and not price.is_multiple:
        return float(price.values[0])
    rent = found.bases[line.view].cluster.usd_per_hour
    return None if rent is None else float(rent) * (price.values[0] if price is not None else 1.0)


def sentences(steps: Sequence[BreakEven], units: dict[str, str]) -> Iterator[str]:
    """Yield a sentence for each number and view, on its first and its last step.

    ``units`` has the SI unit of each key.
    """
    groups: dict[tuple[str, str], list[BreakEven]] = {}
    for step in steps:
        groups.setdefault((step.view, step.key), []).append(step)
    for (view, key), several in groups.items():
        said = [_said(step, units[key]) for step in dict.fromkeys((several[0], several[-1]))]
        yield f"{view.capitalize()} view: {name_of(key)} pays {', and '.join(said)}."


def _said(step: BreakEven, unit: str) -> str:
    ends = f"from {in_unit(step.low, unit)} to {in_unit(step.high, unit)}"
    gain = step.gain - 1.0
    if gain < 0.0005:
        return f"at no price {ends}, which brings nothing"
    if step.usd_per_hour is None:
        return f"below {percent(gain, 1)} more rent {ends}"
    scale, name = PER[unit]
    each = (step.usd_per_hour_per_unit or 0.0) * scale
    more = f"below {step.usd_per_hour:.2g} USD/hour more rent per device ({each:.3g} USD/hour per {name})"
    return f"{more} {ends}, which brings {percent(gain, 1)}"
