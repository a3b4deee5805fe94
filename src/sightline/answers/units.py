"""Numbers as people read them: a few digits, a unit, nothing a column could not hold."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sightline import quantities

BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_MINUTE, _HOUR, _DAY, _YEAR = 60.0, 3600.0, 86400.0, 365.25 * 86400.0
NOTHING = "-"
"""What stands for a figure that is not known."""


def digits(value: float, significant: int = 3) -> str:
    """Return ``value`` with about ``significant`` digits and thousands separators, never in exponent form."""
    if not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    decimals = max(0, significant - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 12)}f}"


def number(value: float) -> str:
    """Return a number without a unit: all digits of a whole one, three of others."""
    return f"{value:,.0f}" if math.isfinite(value) and value == int(value) else digits(value)


def seconds(value: float | None, *, like: float | None = None) -> str:
    """Return a duration in the unit that suits it, or one ``like`` it, from nanoseconds to years; a dash for None."""
    if value is None or not math.isfinite(value):
        return NOTHING
    size = abs(value if like is None else like)
    for limit, unit, divisor in (
        (1e-6, "ns", 1e-9),
        (1e-3, "us", 1e-6),
        (1.0, "ms", 1e-3),
        (2 * _MINUTE, "s", 1.0),
        (2 * _HOUR, "min", _MINUTE),
        (2 * _DAY, "h", _HOUR),
        (2 * _YEAR, "days", _DAY),
    ):
        if size < limit and size != 0:
            return f"{digits(value / divisor)} {unit}"
    return "0 s" if size == 0 else f"{digits(value / _YEAR)} years"


def span(low: float, high: float | None, unit: str = "s", *, like: float | None = None) -> str:
    """Return an interval with its unit once, without an upper end as a bound; one value where both ends read the same.

    Ends of a time have one unit, that of the upper end or of a time ``like`` it, unless they are far apart.
    """
    if high is None:
        return f"at least {shown(low, unit)}"
    is_far = not 0 < high <= _FAR * low
    first, last = (
        seconds(end, like=like or high) if unit == "s" and not is_far else shown(end, unit) for end in (low, high)
    )
    unit = last.rpartition(" ")[2]
    return last if first == last else f"{first.removesuffix(f' {unit}')} to {last}"


_FAR = 20.0
"""How many times the lower end of an interval the upper one is at least where each has a unit of its own."""


def size(value: float) -> str:
    """Return bytes in binary units (GiB is 2**30)."""
    return _scaled(value, 1024.0, BINARY, " ")


def gib(value: float) -> str:
    """Return bytes as GiB with one decimal, for columns that share the unit."""
    return f"{value / 2**30:,.1f} GiB" if math.isfinite(value) else NOTHING


def rate(value: float, unit: str) -> str:
    """Return a decimal rate such as ``131 TFLOP/s``."""
    return _scaled(value, 1000.0, tuple(prefix + unit for prefix in DECIMAL), " ")


def energy(value_j: float) -> str:
    """Return an energy in watt-hours, the unit it is paid in."""
    return _scaled(value_j / 3600.0, 1000.0, ("Wh", "kWh", "MWh", "GWh", "TWh"), " ")


def money(value_usd: float) -> str:
    """Return an amount in US dollars, large ones in thousands, millions and billions."""
    if 0 < abs(value_usd) < 0.01:
        return f"${digits(value_usd, 2)}"
    if abs(value_usd) < 10_000:
        return f"${value_usd:,.2f}" if math.isfinite(value_usd) else NOTHING
    return "$" + _scaled(value_usd, 1000.0, ("", "k", "M", "B", "T"), "")


def count(value: float) -> str:
    """Return a large count such as ``2 T`` tokens or ``6.74 B`` parameters."""
    return _scaled(value, 1000.0, ("", "k", "M", "B", "T"), " ").rstrip()


def percent(fraction: float) -> str:
    """Return a fraction as a percentage with one decimal."""
    return quantities.percent(fraction, 1) if math.isfinite(fraction) else NOTHING


FORMATS: Mapping[str, Callable[[float], str]] = {
    "s": seconds,
    "count": number,
    "tokens": lambda value: f"{count(value)} tokens",
    "requests/s": lambda value: f"{digits(value)}/s",
    "B": size,
    "J": energy,
    "USD": money,
    "share": percent,
    **{unit: partial(rate, unit=unit) for unit in ("FLOP", "FLOP/s", "B/s", "bit/s", "W", "Wh", "Hz")},
}
"""How values in each base unit are written."""


def shown(value: Any, unit: str) -> str:
    """Return a value in a base unit as people read it; words stay as they are, a dash stands for nothing."""
    return FORMATS.get(unit, digits)(float(value)) if is_number(value) else word(value)


def is_number(value: Any) -> bool:
    """Return whether a value is a plain number; yes and no are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def word(value: Any) -> str:
    """Return a choice or a setting as people read it."""
    if value is None or isinstance(value, bool):
        return {None: NOTHING, True: "yes", False: "no"}[value]
    if isinstance(value, Mapping):
        return str(value["kind"]) if "kind" in value else ", ".join(f"{key} {word(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return " + ".join(map(word, value)) or "none"
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return f"{value:.0f}" if value.is_integer() and float(short) != value else short.replace("e+", "e")


def _scaled(value: float, base: float, units: tuple[str, ...], gap: str) -> str:
    if not math.isfinite(value):
        return NOTHING
    step = 0
    while abs(value) >= base * 0.9995 and step < len(units) - 1:
        value /= base
        step += 1
    text = digits(value)
    return f"{text.rstrip('0').rstrip('.') if '.' in text and base == 1000.0 else text}{gap}{units[step]}"


def time_unit(longest: float) -> tuple[float, str]:
    """Return the divisor and the name of the unit in which an axis of times up to ``longest`` reads best."""
    if longest < 1e-3:
        return 1e-6, "microseconds"
    return (1e-3, "milliseconds") if longest < 1.0 else (1.0, "seconds")


def longer_time_unit(longest: float) -> tuple[float, str]:
    """Return the same for an axis of times up to years."""
    for divisor, unit in ((_DAY, "days"), (_HOUR, "hours"), (_MINUTE, "minutes")):
        if longest >= 2 * divisor:
            return divisor, unit
    return time_unit(longest)
