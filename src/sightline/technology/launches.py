"""Launches: when a graphics card or accelerator came, what it cost on that day, and what it did."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

from sightline import catalog
from sightline.errors import InputError
from sightline.quantities import BYTES, BYTES_PER_SECOND, COUNT, FLOPS, SQUARE_METRES, USD, WATTS, show, years_of
from sightline.technology.parts import part_of
from sightline.validators import Key, quantity, text

Market = Literal["gaming", "workstation", "datacenter"]
"""Whom a card is sold to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One card on the day it was launched."""

    name: str
    product: Annotated[str, text]
    """The maker's name of the card."""
    maker: Annotated[str, text]
    market: Market
    date: str
    """Year and month of the launch, such as 2020-09."""
    price_usd: Annotated[float | None, Key(quantity(USD), "price")] = None
    """Suggested or first listed price; None where none was published."""
    fp32: Annotated[float, quantity(FLOPS)]
    """Peak FLOP/s of the vector units in fp32."""
    fp16: Annotated[float | None, quantity(FLOPS)] = None
    """Dense peak FLOP/s of matrix units in fp16 or bf16 with fp32 accumulation; None without matrix units."""
    memory_bytes: Annotated[float, Key(quantity(BYTES), "memory")]
    memory_bandwidth: Annotated[float, quantity(BYTES_PER_SECOND)]
    """Bytes per second."""
    tdp_w: Annotated[float, Key(quantity(WATTS), "tdp")]
    node: Annotated[str, text]
    """Logic node: an entry of the catalog's nodes, or an older or other one such as 28nm."""
    die_area_m2: Annotated[float | None, Key(quantity(SQUARE_METRES), "die_area")] = None
    """Area of all dies of logic in the package."""
    transistors: Annotated[float | None, quantity(COUNT)] = None

    @property
    def years(self) -> float:
        """The date as a number of years."""
        return years_of(self.date)


@cache
def launch(name: str) -> Launch:
    """Return one launch of the catalog; raise `InputError` for a name that it lacks."""
    return part_of("launches", name, Launch, date=_month(catalog.name_of("launches", name)))


@cache
def launches() -> tuple[Launch, ...]:
    """Return all launches of the catalog by date."""
    return tuple(sorted(map(launch, catalog.names("launches")), key=lambda one: (one.date, one.name)))


def _month(name: str) -> str:
    """The date of an entry, which is its launch."""
    stated = catalog.entry("launches", name).get("date")
    year, _, month = str(stated).partition("-")
    if not (year.isdigit() and month.isdigit() and 1 <= int(month) <= 12):
        raise InputError(f"catalog.launches.{name}.date is {show(stated)}; allowed: a year and month such as 2020-09")
    return str(stated)


CONSUMER_PRICES: Mapping[int, float] = {
    2006: 201.6,
    2007: 207.342,
    2008: 215.303,
    2009: 214.537,
    2010: 218.056,
    2011: 224.939,
    2012: 229.594,
    2013: 232.957,
    2014: 236.736,
    2015: 237.017,
    2016: 240.007,
    2017: 245.120,
    2018: 251.107,
    2019: 255.657,
    2020: 258.811,
    2021: 270.970,
    2022: 292.655,
    2023: 304.702,
    2024: 313.689,
}
"""Index of all items by year, the mean over its months, 100 in 1982 to 1984: U.S. Bureau of Labor Statistics, CPI-U,
U.S. city average, series CUUR0000SA0."""


def in_dollars_of(year: int, price_usd: float, paid: int) -> float | None:
    """Return a price that was paid in one year in dollars of another; None where the index of a year is not known."""
    if year not in CONSUMER_PRICES or paid not in CONSUMER_PRICES:
        return None
    return price_usd * CONSUMER_PRICES[year] / CONSUMER_PRICES[paid]
