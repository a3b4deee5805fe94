"""Launches: when a graphics card or accelerator came, what it cost on that day, and what it did."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from sightline import catalog
from sightline.errors import InputError
from sightline.quantities import BYTES, BYTES_PER_SECOND, COUNT, FLOPS, SQUARE_METRES, USD, WATTS, show, years_of
from sightline.technology.parts import read_entry
from sightline.validators import choice, quantity, text

Market = Literal["gaming", "workstation", "datacenter"]
"""Whom a card is sold to."""

_KEYS: dict[str, Callable[[Any], Any]] = {
    "product": text,
    "maker": text,
    "market": choice(*get_args(Market)),
    "price": quantity(USD),
    "fp32": quantity(FLOPS),
    "fp16": quantity(FLOPS),
    "memory": quantity(BYTES),
    "memory_bandwidth": quantity(BYTES_PER_SECOND),
    "tdp": quantity(WATTS),
    "node": text,
    "die_area": quantity(SQUARE_METRES),
    "transistors": quantity(COUNT),
}
_OPTIONAL = ("price", "fp16", "die_area", "transistors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One card on the day it was launched."""

    name: str
    product: str
    """The maker's name of the card."""
    maker: str
    market: Market
    date: str
    """Year and month of the launch, such as 2020-09."""
    price_usd: float | None
    """Suggested or first listed price; None where none was published."""
    fp32: float
    """Peak FLOP/s of the vector units in fp32."""
    fp16: float | None
    """Dense peak FLOP/s of matrix units in fp16 or bf16 with fp32 accumulation; None without matrix units."""
    memory_bytes: float
    memory_bandwidth: float
    """Bytes per second."""
    tdp_w: float
    node: str
    """Logic node: an entry of the catalog's nodes, or an older or other one such as 28nm."""
    die_area_m2: float | None
    """Area of all dies of logic in the package."""
    transistors: float | None

    @property
    def years(self) -> float:
        """The date as a number of years."""
        return years_of(self.date)


@cache
def launch(name: str) -> Launch:
    """Return one launch of the catalog; raise `InputError` for a name that it lacks."""
    values = read_entry("launches", name, _KEYS, _OPTIONAL)
    name = catalog.name_of("launches", name)
    return Launch(
        name=name,
        product=values["product"],
        maker=values["maker"],
        market=values["market"],
        date=_month(name),
        price_usd=values.get("price"),
        fp32=values["fp32"],
        fp16=values.get("fp16"),
        memory_bytes=values["memory"],
        memory_bandwidth=values["memory_bandwidth"],
        tdp_w=values["tdp"],
        node=values["node"],
        die_area_m2=values.get("die_area"),
        transistors=values.get("transistors"),
    )


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
