"""Options of a request, and limits of a plan: what each is on, what it is called, and how somebody writes it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from sightline.errors import InputError, noted, prefixed, refuse
from sightline.quantities import BYTES, SECONDS, USD, Dimension, parse_quantity, show
from sightline.scenario.serving import MOST_PLAIN_S

Options: TypeAlias = Mapping[str, Any]
"""Arguments of `sightline.planning.search.plan` by name."""
Command: TypeAlias = Callable[..., str]
"""Returns the command that asks again, given further options and settings."""


class Limit(NamedTuple):
    """A limit on a result."""

    key: str
    """The result that may be so large at most."""
    rejects: str
    """What plans that exceed it are counted as."""
    dimension: Dimension
    label: str
    exceeded: str
    """What plans do that exceed it."""
    least: float = 0.0
    """What a number without a unit means at least."""
    example: str = ""
    """How it is written with a unit."""

    @property
    def unit(self) -> str:
        """Its base unit, as it is typed."""
        return {BYTES: "B", SECONDS: "s"}.get(self.dimension, "")


LIMITS: Final[Mapping[str, Limit]] = {
    "max_memory": Limit("memory_bytes.total", "memory", BYTES, "memory", "exceed device memory", 1e9, "70 GB"),
    "deadline": Limit(
        "calendar_time_s", "deadline", SECONDS, "calendar time", "exceed the deadline", 60.0, "30d' or '72h"
    ),
    "budget": Limit("cost_usd", "budget", USD, "cost", "exceed the budget"),
    "ttft": Limit("ttft_s", "ttft_s", SECONDS, "TTFT", "exceed the time to first token", 0.0, "300 ms"),
    "tpot": Limit("tpot_s", "tpot_s", SECONDS, "TPOT", "exceed the time per output token", 0.0, "10 ms"),
}
"""By the name under which each is given, also as an option."""
BY_KEY: Final[Mapping[str, tuple[str, Limit]]] = {limit.key: (name, limit) for name, limit in LIMITS.items()}
"""Name and limit by the result that it is on."""


def read_limits(**stated: object) -> dict[str, float]:
    """Return limits by name in their base units, from numbers and texts such as "300 ms"; None is no limit.

    Raises:
        InputError: every one that is no such quantity, or a number too small or too large to be meant in the base unit.
    """
    found: dict[str, float] = {}
    problems: list[str] = []
    for name, value in stated.items():
        with noted(problems):
            if value is not None:
                found[name] = read_limit(name, value, LIMITS[name])
    refuse(problems)
    return found


def by_key(limits: Mapping[str, float]) -> dict[str, float]:
    """Return limits by the results that they are on."""
    return {LIMITS[name].key: value for name, value in limits.items()}


def read_amount(name: str, value: object, dimension: Dimension, *, zero: bool = False) -> float:
    """Return a quantity in its base unit, perhaps of ``zero``; a mistake names it.

    Raises:
        InputError: it is no such quantity.
    """
    with prefixed(f"{name} "):
        return parse_quantity(value, dimension, zero=zero)


def read_limit(name: str, value: object, limit: Limit) -> float:
    """Return one limit in its base unit; a mistake names it.

    Raises:
        InputError: it is no such quantity, or a number too small or too large to be meant in the base unit.
    """
    dimension = replace(limit.dimension, example=limit.example or limit.dimension.example)
    amount = read_amount(name, value, dimension)
    if not limit.least <= amount <= MOST_PLAIN_S.get(limit.key, inf) and _is_plain(value):
        unit = {BYTES: "bytes", SECONDS: "seconds"}[limit.dimension]
        said = f"{name} is {show(value)}, which is {amount:g} {unit}"
        raise InputError(f"{said}; add a unit, such as '{limit.example}'")
    return amount


def _is_plain(value: object) -> bool:
    """Whether a value is a number without a unit."""
    try:
        float(str(value))
    except ValueError:
        return False
    return True
