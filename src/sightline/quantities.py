"""Numbers that may be arrays, and "2 TB/s" to SI floats and back."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import Repr
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, nearest

Number: TypeAlias = float | NDArray[np.floating[Any]]
"""A float or a float array; every formula accepts both and arrays broadcast."""
Count: TypeAlias = float | NDArray[np.integer[Any]] | NDArray[np.floating[Any]]
"""A whole number or an array of them."""
GIB = 2.0**30
"""Bytes of a GiB."""
DAY = 86400.0
"""Seconds of a day."""
COVERAGE = 0.8
"""Share of measurements that an interval should hold."""
FOUR_IN_FIVE = 1.2816
"""Half-width of the interval that holds 80 % of a normal distribution, in standard deviations."""
PLAIN: frozenset[type] = frozenset((float, int, np.float64))
"""Types of plain numbers: told by type, they need not each be asked for its dimensions."""


def added_up(numbers: Iterable[Number]) -> Number:
    """Return the sum, smaller arrays added first: of many plans, few additions then touch every one."""
    summands = list(numbers)
    if not {*map(type, summands)} <= PLAIN:
        summands.sort(key=np.size)
    return sum(summands)


def either(condition: Any, if_true: Count, if_false: Count) -> Number:
    """Return one of two numbers; where the condition is an array, the one or the other place by place."""
    if isinstance(condition, np.ndarray):
        chosen: Number = np.where(condition, if_true, if_false)
        return chosen
    plain: Any = if_true if condition else if_false
    number: Number = plain
    return number


def larger(a: Count, b: Count) -> Number:
    """Return the larger of two numbers, place by place; for plain numbers several times faster than NumPy's."""
    if type(a) is float and type(b) is float:
        return b if b > a else a  # noqa: FURB136 - a call takes twice as long
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        most: Number = np.maximum(a, b)
        return most
    return max(a, b)


def smaller(a: Count, b: Count) -> Number:
    """Return the smaller of two numbers, place by place; for plain numbers several times faster than NumPy's."""
    if type(a) is float and type(b) is float:
        return b if b < a else a  # noqa: FURB136 - a call takes twice as long
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        least: Number = np.minimum(a, b)
        return least
    return min(a, b)


def rounded_up(number: Number, granule: Number = 1.0) -> Number:
    """Return the next multiple of ``granule`` from a number on."""
    steps = number / granule
    return granule * (np.ceil(steps) if isinstance(steps, np.ndarray) else float(math.ceil(steps)))


def anywhere(condition: Any) -> bool:
    """Return whether a condition holds, of an array in any place."""
    return bool(condition.any()) if isinstance(condition, np.ndarray) else bool(condition)


def as_python(value: Any) -> Any:
    """Return a NumPy scalar as Python's own number; arrays and all other values as they are."""
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 else value


_PLAIN = {str, int, bool, type(None)}
"""Types of values that JSON says as they are."""


def as_json(value: Any) -> Any:
    """Return ``value`` as JSON can say it: without NumPy types and tuples.

    NaN and infinity are null, dates are text.
    """
    if type(value) in _PLAIN or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, (dict, Mapping)):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        items = [as_json(item) for item in value]
        return items if isinstance(value, list | tuple) else sorted(items)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def identity(value: Number) -> object:
    """Return what tells two numbers or arrays apart, as the key of a dictionary."""
    return value.tobytes() if isinstance(value, np.ndarray) else value


_MIX = np.uint64(0x9E3779B97F4A7C15)
"""An odd number whose multiples spread over all bits (Knuth's multiplicative hashing)."""


def distinct(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where each distinct row of equally long columns of numbers comes first, and which of them every row is."""
    key = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        key = (key ^ (key >> np.uint64(29))) * _MIX + (column + 0.0).view(np.uint64)
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    if all(np.array_equal(column[first[place]], column) for column in columns):
        return first, place
    # Two rows had the same key by accident.
    _, first, place = np.unique(np.stack(columns), axis=1, return_index=True, return_inverse=True)
    return first, place.ravel()


_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_TIMES = {
    "ns": 1e-9,
    **dict.fromkeys(("us", "µs", "μs"), 1e-6),
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    **dict.fromkeys(("day", "d"), 86400.0),
}


def _prefixed(units: Mapping[str, float], prefixes: Mapping[str, float]) -> dict[str, float]:
    return {prefix + unit: factor * scale for unit, scale in units.items() for prefix, factor in prefixes.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dimension:
    """A kind of quantity: its SI base unit, every unit it may be written in, and those it is shown in."""

    name: str
    base: str
    """Unit of a plain number; empty for a count."""
    units: Mapping[str, float] = field(repr=False)
    """Value of one of each accepted unit in the base unit."""
    shown: tuple[str, ...] = ()
    """Units to show values in, smallest first; empty shows ``base``."""
    example: str


def _dimension(name: str, base: str, example: str, shown: str = "", **units: Mapping[str, float]) -> Dimension:
    table = {unit: factor for group in units.values() for unit, factor in group.items()}
    return Dimension(name=name, base=base, units=table, shown=tuple(shown.split()), example=example)


_PREFIXES = _DECIMAL | _BINARY
_BYTES = _prefixed({"B": 1.0}, _PREFIXES)
_BYTE_RATES = _prefixed({"B/s": 1.0, "Bps": 1.0, "bit/s": 0.125, "b/s": 0.125, "bps": 0.125}, _PREFIXES)
_FLOP_RATES = _prefixed({"FLOP/s": 1.0, "FLOPs/s": 1.0, "FLOPS": 1.0, "flop/s": 1.0, "flops": 1.0}, _DECIMAL)

BYTES = _dimension(
    "a size in bytes", "B", "80 GB", "B KB MB GB TB PB", all=_BYTES, words={"byte": 1.0, "bytes": 1.0, "KB": 1e3}
)
BYTES_PER_SECOND = _dimension(
    "a bandwidth", "B/s", "2 TB/s", "B/s KB/s MB/s GB/s TB/s PB/s", all=_BYTE_RATES, words={"KB/s": 1e3}
)
SECONDS = _dimension(
    "a time",
    "s",
    "5 us",
    "ns us ms s min h days",
    all=_TIMES,
    words={"hours": 3600.0, "days": 86400.0} | dict.fromkeys(("w", "week", "weeks"), 604800.0),
)
BITS_PER_SECOND = _dimension(
    "a data rate per pin",
    "bit/s",
    "6.4 Gbit/s",
    "bit/s Mbit/s Gbit/s Tbit/s",
    all=_prefixed({"bit/s": 1.0, "b/s": 1.0, "bps": 1.0}, _DECIMAL),
)
FLOPS = _dimension(
    "a compute rate",
    "FLOP/s",
    "312 TFLOP/s",
    "FLOP/s kFLOP/s MFLOP/s GFLOP/s TFLOP/s PFLOP/s EFLOP/s",
    all=_FLOP_RATES,
)
WATTS = _dimension("a power", "W", "300 W", "W kW MW GW", all=_prefixed({"W": 1.0}, _DECIMAL), small={"mW": 1e-3})
JOULES = _dimension(
    "an energy",
    "J",
    "3.6 MJ",
    "J kJ MJ GJ TJ",
    all=_prefixed({"J": 1.0}, _DECIMAL),
    hours=_prefixed({"Wh": 3600.0}, _DECIMAL),
)
_SMALL = {"m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}
_BITS = _prefixed({"J/bit": 1.0, "J/b": 1.0}, _SMALL)
JOULES_PER_BIT = _dimension("an energy per bit", "J/bit", "3.5 pJ/bit", "fJ/bit pJ/bit nJ/bit", all=_BITS)
METRES = _dimension("a length", "m", "8 mm", "nm um mm m", all={"m": 1.0, "cm": 1e-2} | _prefixed({"m": 1.0}, _SMALL))
SQUARE_METRES = _dimension(
    "an area", "m2", "814 mm2", "um2 mm2 m2", all={"m2": 1.0, "cm2": 1e-4, "mm2": 1e-6, "um2": 1e-12, "nm2": 1e-18}
)
TRANSISTORS_PER_SQUARE_METRE = _dimension(
    "a density of transistors", "/m2", "91.2 MTr/mm2", "MTr/mm2", all={"/m2": 1.0, "/mm2": 1e6, "MTr/mm2": 1e12}
)
BITS_PER_SQUARE_METRE = _dimension(
    "a density of bits", "bit/m2", "32 Mbit/mm2", "Mbit/mm2", all={"bit/m2": 1.0, "Mbit/mm2": 1e12, "Mb/mm2": 1e12}
)
DEFECTS_PER_SQUARE_METRE = _dimension(
    "a density of defects", "/m2", "0.1 /cm2", "/cm2", all={"/m2": 1.0, "/cm2": 1e4, "/mm2": 1e6}
)
HERTZ = _dimension("a frequency", "Hz", "1.4 GHz", "Hz kHz MHz GHz", all=_prefixed({"Hz": 1.0}, _DECIMAL))
VOLTS = _dimension("a voltage", "V", "0.75 V", "mV V", all={"V": 1.0, "mV": 1e-3})
TOKENS_PER_SECOND = _dimension(
    "a number of tokens per second",
    "tokens/s",
    "12000 tokens/s",
    all={"tokens/s": 1.0, "token/s": 1.0, "tok/s": 1.0, "ktokens/s": 1e3, "ktok/s": 1e3},
)
_MONEY = {"k": 1e3, "M": 1e6, "B": 1e9}
USD = _dimension(
    "an amount of money",
    "USD",
    "12.50 USD",
    all={"USD": 1.0, "$": 1.0},
    large=_prefixed({"": 1.0, "USD": 1.0, " USD": 1.0, "$": 1.0}, _MONEY),
)
USD_PER_HOUR = _dimension(
    "a price per hour",
    "USD/hour",
    "1.80 USD/hour",
    all={"USD/hour": 1.0, "USD/h": 1.0, "$/h": 1.0, "$/hour": 1.0, "/h": 1.0, "/hour": 1.0},
)
COUNT = _dimension("a number", "", "2e12")
RATE = _dimension("a number", "", "2.5")
"""Rates of requests and ratios."""
_THOUSANDS = {"": 1.0, "k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "b": 1e9, "B": 1e9, "G": 1e9, "t": 1e12, "T": 1e12}
TOKENS = _dimension(
    "a number of tokens",
    "",
    "15T",
    all={f"{prefix}{unit}": factor for prefix, factor in _THOUSANDS.items() for unit in ("", "tokens", " tokens")},
)
"""Amounts of tokens, as papers write them: 15T, 300B, 2.5M."""
SAMPLES = _dimension("a number of samples", "", "52k", all=_THOUSANDS)

_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist = 3, 6, 8
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 80

LARGEST, SMALLEST = 1e27, 1e-27
"""Of all quantities, in base units: far beyond what there is, and formulas of such numbers stay within a float."""
_LONGEST = 100
"""Characters of a quantity: the figures of a longer one are a mistake."""
_QUANTITY = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.*?)?\s*", re.ASCII)


def parse_quantity(value: object, dimension: Dimension, *, zero: bool = False) -> float:
    """Return ``value`` - a plain number, or text such as "2 TB/s" - in the dimension's SI base unit.

    Only values above zero are quantities here, within what there is; ``zero`` allows 0 too. Raise `InputError` with
    half a sentence ("is '3 GHz'; allowed: ...") that whoever knows the key completes.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | np.integer | np.floating):
        raise InputError(_refusal(value, dimension, zero))
    number = _from_text(value, dimension, zero) if isinstance(value, str) else _as_float(value)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise InputError(_refusal(value, dimension, zero))
    if number > LARGEST or 0 < number < SMALLEST:
        limits = f"from {SMALLEST:g} to {LARGEST:g} {dimension.base}".rstrip()
        raise InputError(f"{_refusal(value, dimension, zero)}, {limits}")
    return number


def format_quantity(value: float, dimension: Dimension, *, digits: int = 3) -> str:
    """Return ``value``, given in the base unit, in the unit people would choose, to ``digits`` significant digits."""
    if not math.isfinite(value):
        return str(float(value))
    unit = dimension.base
    for candidate in dimension.shown:
        # The larger unit as soon as the rounded figure would reach one of it: 999.6 MB reads 1 GB.
        if abs(significant(value, digits)) >= dimension.units[candidate] or candidate == dimension.shown[0]:
            unit = candidate
    if value == 0:
        unit = dimension.base
    text = _shown(value / dimension.units.get(unit, 1.0), digits)
    return f"{text} {unit}".strip()


def _from_text(text: str, dimension: Dimension, zero: bool) -> float:
    in_dollars = any(unit.startswith("$") for unit in dimension.units)
    written = text.lstrip().removeprefix("$" if in_dollars else "") if len(text) <= _LONGEST else ""
    matched = _QUANTITY.fullmatch(written)
    if matched is None:
        raise InputError(_refusal(text, dimension, zero))
    unit = matched[2] or dimension.base
    scale = dimension.units.get(unit, 1.0 if unit == dimension.base else None)
    if scale is None:
        raise InputError(_refusal(text, dimension, zero) + _nearest_unit(unit, dimension))
    # Fifteen digits: 5 us is 5e-06, not 4.9999999999999996e-06.
    return significant(float(matched[1].replace("_", "")) * scale, 15)


def _nearest_unit(unit: str, dimension: Dimension) -> str:
    """Return `` - did you mean 'GB'?`` for a misspelt unit, or an empty string."""
    spelled = {known.lower(): known for known in reversed(list(dimension.units))}
    if unit.lower() in spelled:
        return f" - did you mean '{spelled[unit.lower()]}'?"
    return nearest(unit, list(dimension.units))


def significant(value: Number, digits: int = 3) -> float:
    """Return ``value``, which is no array of several, rounded to so many significant digits."""
    return float(f"{float(value):.{digits}g}")


def plain(number: Number | Count) -> Number:
    """Return a number that is no array as Python's own float, which calculates several times faster than NumPy's."""
    if type(number) is float:
        return number
    return float(number) if type(number) in PLAIN or np.ndim(number) == 0 else np.asarray(number, dtype=float)


def _as_float(value: float | np.integer | np.floating) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _refusal(value: object, dimension: Dimension, zero: bool) -> str:
    above = "0 or more" if zero else "above 0"
    form = f"as '{dimension.example}'" + (f" or a plain number in {dimension.base}" if dimension.base else "")
    return f"is {show(value)}; allowed: {dimension.name} {above}, {form}"


def years_of(date: str) -> float:
    """Return a date, a year and month such as 2020-09, as a number of years at the middle of the month: 2020.71."""
    year, month = date.split("-")[:2]
    return int(year) + (int(month) - 0.5) / 12


def percent(share: float, digits: int = 0, *, signed: bool = False) -> str:
    """Return a share in per cent: ``percent(0.5)`` is "50 %", and a change with its sign "+50 %"."""
    return f"{100 * share:{'+' * signed}z.{digits}f} %"


def relative(ratio: float, less: str = "faster", more: str = "slower") -> str:
    """Return how a figure differs from another that it is ``ratio`` times: "37 % faster", from twice on "2.3 x slower".

    ``less`` and ``more`` are the words for smaller and larger figures; those of the default are of times.
    """
    far, share = significant(max(ratio, 1.0 / ratio), 2), significant(100.0 * abs(ratio - 1.0), 2)
    said = f"{far:,g} x" if far >= 2.0 else f"{share:g} %"
    return f"{said} {less if ratio < 1.0 else more}"


def relative_span(low: float, high: float, less: str = "faster", more: str = "slower") -> str:
    """Return the interval of such a ratio: "30 % to 41 % faster"."""
    ends = sorted((low, high), reverse=bool(high < 1.0))
    first, last = (relative(end, less, more) for end in ends)
    return f"{first.removesuffix(last.rpartition('%')[2])} to {last}"


def counted(count: float, noun: str, several: str = "") -> str:
    """Return a count with its noun, such as ``1 request`` or ``2,000 requests``; ``several`` is an irregular plural."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def show(value: object) -> str:
    """Return ``value`` as a message quotes it: cut to a readable length, however deep, large or odd it is."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        return _SHORT.repr(value)
    except ValueError:  # an integer longer than Python converts to decimal
        return "a huge number"


_MOST_NAMES, _LONGEST_NAME = 12, 80


def listed(names: Collection[str]) -> str:
    """Return names of others as a message lists them: the first few, quoted and cut where they are long or odd."""
    shown = [name if name.isprintable() and len(name) <= _LONGEST_NAME else show(name) for name in names]
    return first_of(shown, _MOST_NAMES)


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first names of a list, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def _shown(value: float, digits: int) -> str:
    rounded = significant(value, digits)
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded)))) if rounded else 0
    text = f"{rounded:,.{decimals}f}" if decimals < 12 else f"{rounded:.{digits - 1}e}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
