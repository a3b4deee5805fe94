"""Figures and bounds as a sentence writes them: in the unit of the bound, with the digits that tell the two apart.

A bound without a unit is in the unit of its figure, which the sentence shows: whoever types 500 and means milliseconds
reads 500 s.
"""

from dataclasses import dataclass

from sightline.quantities import Dimension, format_quantity, significant
from sightline.requirements.expression import Requirement

_DIGITS, _MOST_DIGITS = 3, 15
_BASE_UNITS = ("s", "tokens", "tokens/s", "requests/s", "USD")
"""Units in which figures are read as they are."""
_LEAST, _MOST = 1e-3, 1e6
"""Between which a bound without a unit is read in such a unit."""


@dataclass(frozen=True, slots=True)
class Notation:
    """How the figures of one requirement are written."""

    dimension: Dimension | None
    """Writes each figure in the unit that suits it, where no ``unit`` was typed."""
    unit: str = ""
    scale: float = 1.0
    """One of the unit in the base unit."""

    @classmethod
    def of(cls, requirement: Requirement) -> "Notation":
        """Return the notation in which a requirement's bound was typed."""
        text, dimension = requirement.written.strip("'\" "), requirement.dimension
        if requirement.figure.unit == "share" or dimension is None:
            return cls(None, " %", 0.01) if text.endswith("%") else cls(None)
        units = sorted(dimension.units, key=len, reverse=True)
        unit = next((unit for unit in units if unit.strip() and text.endswith(unit)), None)
        if unit is not None:
            return cls(dimension, f" {unit.strip()}", dimension.units[unit])
        bound, base = float(requirement.bound or 0.0), requirement.figure.unit
        is_read = base in _BASE_UNITS and (bound == 0 or _LEAST <= bound < _MOST)
        return cls(dimension, f" {base}") if is_read else cls(dimension)

    def beside(self, value: float, other: float | None) -> str:
        """Return a figure with as many digits as tell it from the ``other`` one, if that is another."""
        if other is None or value == other:
            return self._shown(value, _DIGITS)
        digits = range(_DIGITS, _MOST_DIGITS)
        apart = (n for n in digits if self._shown(value, n) != self._shown(other, n))
        return self._shown(value, next(apart, _MOST_DIGITS))

    def between(self, low: float, high: float, other: float) -> str:
        """Return both ends of an interval, the unit once where they share it."""
        ends = [self.beside(low, other), self.beside(high, other)]
        numbers, units = zip(*(end.partition(" ")[::2] for end in ends), strict=True)
        return f"{numbers[0]} to {ends[1]}" if units[0] == units[1] else " to ".join(ends)

    def _shown(self, value: float, digits: int) -> str:
        if self.dimension is not None and not self.unit:
            return format_quantity(value, self.dimension, digits=digits)
        return f"{significant(value / self.scale, digits):,.{_MOST_DIGITS}g}{self.unit}"
