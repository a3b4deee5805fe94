"""What a column of a study holds: its name for people and its unit, both told by its key, and values as text."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import floor, isfinite, log10
from typing import Any

from sightline.profile import GENERATION, SERVING, TRAINING
from sightline.report import units
from sightline.report.studies.levels import LEVELS, in_words

NOTHING = "-"
"""Text of a value that a row does not have."""
_BASES = {
    "s": "s",
    "bytes": "B",
    "flops": "FLOP",
    "flop": "FLOP",
    "j": "J",
    "w": "W",
    "usd": "USD",
    "kg": "kg",
    "hz": "Hz",
    "v": "V",
    "mm2": "mm2",
    "mm": "mm",
    "nm": "nm",
    "share": "share",
    "fraction": "share",
    "tokens": "tokens",
    "requests": "requests",
    "params": "parameters",
    "parameters": "parameters",
}
"""Units by the last word of a key before ``per``."""
_NOUNS = ("tokens", "requests", "flops", "params", "parameters", "bytes")
"""Units that are the thing itself: a key may consist of one alone."""
_RATES = {"tokens/s": "throughput", "requests/s": "throughput", "FLOP/s": "FLOP/s", "B/s": "bandwidth"}
"""What is said of a rate that has no name but its unit."""
_DEVICE_KEYS = {
    "bandwidth": "B/s",
    "bandwidth_per_node": "B/s",
    "device_bandwidth": "B/s",
    "memory_bandwidth": "B/s",
    "l2_bandwidth": "B/s",
    "peak_flops": "FLOP/s",
    "vector_flops": "FLOP/s",
    "latency": "s",
    "launch_time": "s",
    "memory": "B",
    "power_cap": "W",
    "tdp": "W",
    "power": "W",
    "mfu": "share",
    "hfu": "share",
    "utilization": "share",
}
"""Units of keys that do not name theirs."""
_KEY = re.compile(
    r"(cluster|device|intra_node|network|host|technology|plan|workload|model)\.[a-z0-9_.]+$|[a-z][a-z0-9]*(_[a-z0-9]+)+$"
)
"""A value that is a key of a scenario or of a result."""
_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_PREFIXED = ("FLOP", "FLOP/s", "B/s", "W", "Wh", "J", "Hz")
_COUNTED = ("tokens", "requests", "parameters", "tokens/s", "requests/s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What the numbers of a column are."""

    label: str
    unit: str = ""
    """In which they are stored: s, B, B/s, FLOP, FLOP/s, J, W, USD, share, tokens, ... ; empty where they have none."""
    per: str = ""
    """What each of them is for: ``per million tokens``; empty where they stand for themselves."""
    is_year: bool = False

    def scaled(self, largest: float) -> tuple[float, str]:
        """Return by what values up to ``largest`` are divided on an axis, and the unit that they have then."""
        as_energy = self.unit == "J" and not self.per
        divisor, unit = _divided("Wh" if as_energy else self.unit, abs(largest) / (3600.0 if as_energy else 1.0))
        divisor *= 3600.0 if as_energy else 1.0
        return divisor, f"{unit} {self.per}".strip()

    def titled(self, unit: str) -> str:
        """Return the label with a unit, or the unit alone where it says the same."""
        if self.label in unit:
            return unit
        return f"{self.label} ({unit})" if unit and unit not in self.label else self.label

    @property
    def heading(self) -> str:
        """The label with what each value is for, over values that have their unit."""
        return f"{self.label} {self.per}".strip()

    def text(self, value: Any) -> str:
        """Return one value with its unit as people write it, without what it is ``per``."""
        if value is None or (isinstance(value, float) and not isfinite(value)):
            return NOTHING
        if isinstance(value, bool):
            return "yes" if value else "no"
        if not isinstance(value, int | float):
            return worded(value)
        if self.is_year:
            return f"{value:g}"
        if self.unit == "J" and not self.per:
            return units.energy(value)
        return _text(self.unit, value) if self.unit else plain(value)


def worded(value: Any) -> str:
    """Return a value that is no number as words: levels by their names."""
    text = str(value)
    if _KEY.match(text):
        known = text.startswith(("cluster.", "plan.", "workload.", "model.")) or "." not in text
        return quantity_of(text if known else f"cluster.{text}").heading
    return LEVELS.get(text, text)


def words_of(text: str) -> str:
    """Return a title with the keys in it as words."""
    return " ".join(worded(word) if _KEY.match(word) else word for word in text.split(" "))


def plain(value: float) -> str:
    """Return a number without a unit: whole ones with separators, others with three digits."""
    if float(value).is_integer() and abs(value) < 1e6:
        return f"{value:,.0f}"
    if abs(value) >= 1e6:
        return units.count(value)
    text = units.digits(value)
    return text.rstrip("0").rstrip(".") if "." in text and abs(value) < 1e-3 else text


def quantity_of(column: str, names: Mapping[str, str] | None = None) -> Quantity:
    """Return what a column holds; ``names`` has what readers see in place of its name."""
    found = _quantity_of(column)
    label = (names or {}).get(column, "").removesuffix(f", {found.unit}")
    return Quantity(label=label, unit=found.unit, per=found.per, is_year=found.is_year) if label else found


@cache
def _quantity_of(column: str) -> Quantity:
    known = _KNOWN.get(column)
    if known is not None:
        return known
    key = column.rpartition(".")[2]
    if column.startswith("memory_bytes."):
        return Quantity(label=f"{in_words(key)} memory" if key != "total" else "memory", unit="B")
    unit = next((unit for end, unit in _DEVICE_KEYS.items() if key == end or key.endswith(f"_{end}")), "")
    parent = column.split(".")[-2] if column.startswith("cluster.") else ""
    if parent not in ("", "cluster", "device"):
        told = Quantity(label=in_words(key), unit=unit) if unit else _parsed(key)
        return told if parent in told.label else replace(told, label=f"{in_words(parent)} {told.label}")
    if "peak_flops" in column.split("."):
        return Quantity(label=f"{in_words(key)} peak" if key != "peak_flops" else "peak", unit="FLOP/s")
    if unit:
        return Quantity(label=in_words(key), unit=unit)
    return _parsed(key)


def _parsed(key: str) -> Quantity:
    """What a key says of itself: name, unit, and ``per`` what."""
    front, *pers = key.split("_per_")
    words, last = front.split("_"), key.rsplit("_", maxsplit=1)[-1]
    unit = _BASES.get(words[-1], "")
    if pers and not unit and last in _BASES:
        # The unit of all before it, such as of energy_per_step_j.
        return Quantity(label=in_words(key.removesuffix(f"_{last}")), unit=_BASES[last])
    if pers and pers[0] == "s" and unit:
        unit, pers = f"{unit}/s", pers[1:]
    per = " ".join(f"per {in_words(one)}" for one in pers) if unit else ""
    named = words[:-1] if unit and (len(words) > 1 or last not in _NOUNS) else words
    label = in_words("_".join(named)) or {"J": "energy", "USD": "cost", "s": "time"}.get(unit, unit)
    if not unit and pers:
        label = in_words(key)
    elif words == [words[-1]] and unit in _RATES:
        label = _RATES[unit]
    return Quantity(label=label, unit=unit, per=per, is_year=last == "year")


def _of_results() -> dict[str, Quantity]:
    """Result keys have the labels and units that their task declares."""
    declared = {key: one for task in (SERVING, GENERATION, TRAINING) for key, one in task.figures.items()}
    units_of = {key: "" if one.unit in ("count", "word") else str(one.unit) for key, one in declared.items()}
    labels = {key: one.label for key, one in declared.items()}
    return {key: Quantity(label=labels[key], unit=units_of[key]) for key in declared if "_per_" not in key}


_KNOWN = _of_results() | {
    "bound_level": Quantity(label="bound by"),
    "bottleneck": Quantity(label="bound by"),
    "peak_flops": Quantity(label="peak", unit="FLOP/s"),
    "output_tokens_per_s": Quantity(label="throughput", unit="tokens/s"),
    "cluster.device.l2_bytes": Quantity(label="L2 capacity", unit="B"),
    "cluster.device.vector_flops": Quantity(label="vector peak", unit="FLOP/s"),
}


def _divided(unit: str, largest: float) -> tuple[float, str]:
    if unit == "s":
        return (1e-9, "nanoseconds") if 0 < largest < 1e-6 else units.longer_time_unit(largest)
    if unit == "B":
        step = _steps(largest, 1024.0, len(_BINARY))
        return 1024.0**step, _BINARY[step]
    if unit in _PREFIXED:
        step = _steps(largest, 1000.0, len(_DECIMAL))
        return 1000.0**step, _DECIMAL[step] + unit
    if unit == "share":
        return 0.01, "%"
    return 1.0, unit


def _steps(largest: float, base: float, count: int) -> int:
    return min(max(floor(log10(largest) / log10(base) + 1e-9), 0), count - 1) if largest >= 1 else 0


def _text(unit: str, value: float) -> str:
    forms: dict[str, Callable[[float], str]] = {
        "s": units.seconds,
        "B": units.size,
        "share": units.percent,
        "USD": _money,
        "kg": lambda kg: f"{units.digits(kg / 1000)} t" if abs(kg) >= 1e4 else f"{units.digits(kg)} kg",
    }
    if unit in forms:
        return forms[unit](value)
    if unit in _PREFIXED:
        return units.rate(value, unit) if abs(value) >= 1 or value == 0 else f"{units.digits(value)} {unit}"
    if unit in _COUNTED:
        return f"{units.count(value)} {unit}"
    return f"{plain(value)} {unit}"


def _money(usd: float) -> str:
    """An amount; one below a cent keeps its digits."""
    if 0 < abs(usd) < 0.1:
        return f"${units.digits(usd)}"
    return f"${usd:,.0f}" if 100 <= abs(usd) < 10_000 else units.money(usd)


def numeric(values: Iterable[Any]) -> bool:
    """Return whether all values that are there are numbers."""
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(one, int | float) and not isinstance(one, bool) for one in there)
