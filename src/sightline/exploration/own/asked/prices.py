"""``prices`` of a study: what one more unit of a number adds to a device's rent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sightline.errors import InputError, nearest
from sightline.exploration.own.asked.numbers import NumberKey
from sightline.loading.checks import Complaints
from sightline.loading.loader import Asked
from sightline.quantities import USD_PER_HOUR, parse_quantity, show

_FORM = "USD/hour per unit, such as '0.25 USD/hour per TB/s'"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Price:
    """What a number adds to the rent of a device."""

    number: NumberKey
    usd_per_hour_per_unit: float
    """For one SI unit."""


def read_prices(stated: object, numbers: Mapping[str, NumberKey], complaints: Complaints) -> list[Price]:
    """Return the prices that a study states, mistakes noted."""
    if stated is None:
        return []
    if not isinstance(stated, Mapping):
        complaints.add(f"prices is {show(stated)}; allowed: dotted keys, each with {_FORM}")
        return []
    priced = {key: one for key, one in numbers.items() if key.startswith("cluster.") and key != "cluster.device.price"}
    found = []
    for key, value in stated.items():
        if key not in priced:
            complaints.add(f"prices.{key} is not a number of the cluster; allowed: {', '.join(priced)}"
                           f"{nearest(key, tuple(priced))}")  # fmt: skip
            continue
        rate = complaints.note(_rate, f"prices.{key}", value, priced[key])
        found += [] if rate is None else [Price(number=priced[key], usd_per_hour_per_unit=rate)]
    return found


def _rate(place: str, value: object, number: NumberKey) -> float:
    """USD per hour for one SI unit of a number, of a text such as ``0.25 USD/hour per TB/s``."""
    money, per, unit = value.rpartition(" per ") if isinstance(value, str) else ("", "", "")
    if not per:
        raise InputError(f"{place} is {show(value)}; allowed: {_FORM}")
    one = unit if unit[:1].isdigit() else f"1 {unit}"
    try:
        return parse_quantity(money, USD_PER_HOUR) / float(number.read(one))
    except InputError as error:
        raise InputError([f"{place} {problem}" for problem in error.problems]) from None


def with_prices(scenario: Asked, base: Asked, prices: Sequence[Price]) -> Asked:
    """Return a scenario whose devices cost what their numbers add to the rent of the base's.

    Raises:
        InputError: the base's device has no price.
    """
    device = base.cluster.device
    rent: Any = scenario.cluster.device.usd_per_hour
    if not prices:
        return scenario
    if rent is None:
        raise InputError(
            f"prices add to the rent of {device.name}, which the catalog lacks; state cluster.device.price"
        )
    for price in prices:
        more = price.number.get(scenario) - price.number.get(base)
        rent = rent + price.usd_per_hour_per_unit * more
    return replace(
        scenario, cluster=replace(scenario.cluster, device=replace(scenario.cluster.device, usd_per_hour=rent))
    )
