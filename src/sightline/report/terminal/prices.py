"""The prices of the catalog as text: what predictions take, beside what providers list."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.report.terminal.parts import plain_table

KINDS = ("on-demand", "reserved", "spot")
"""Ways to rent, as offers name them."""


def prices_table(entries: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the price of every device in USD per hour that predictions take, and the ranges of what is listed."""
    table = plain_table(("name",), ("$/hour", "on demand", "reserved", "spot", "as of"))
    for name, price in entries.items():
        on_demand, *others = (_range(price, kind) for kind in KINDS)
        table.add_row(name, _amount(price), on_demand or str(price["evidence"]), *others, str(price["date"]))
    return table


def price_table(name: str, price: Mapping[str, Any]) -> RenderableType:
    """Return one device's price, where it comes from, and every offer with its provider, date and source."""
    about = f"{_amount(price)} USD per hour and device: {price['source']} ({price['date']}, {price['evidence']})"
    heading = (Text(name, style="bold"), Text(about, style="dim"))
    offers: Sequence[Mapping[str, Any]] = price.get("offers", ())
    if not offers:
        return Group(*heading)
    rows = [(str(o["provider"]), str(o["kind"]), str(o["date"]), str(o["source"]), _amount(o)) for o in offers]
    table = plain_table(("provider", "kind", "date", "source"), ("$/hour",), rows=rows)
    return Group(*heading, Text(), table)


def _range(price: Mapping[str, Any], kind: str) -> str:
    """The lowest and the highest offer of a kind; empty where there is none."""
    listed = sorted(_of_kind(price, kind), key=float)
    return " - ".join(dict.fromkeys((listed[0], listed[-1]))) if listed else ""


def _of_kind(price: Mapping[str, Any], kind: str) -> Iterator[str]:
    return (_amount(offer) for offer in price.get("offers", ()) if offer["kind"] == kind)


def _amount(priced: Mapping[str, Any]) -> str:
    """Dollars per hour to the cent, as the column's heading has the unit."""
    return f"{float(str(priced['price']).removesuffix(' USD/hour')):.2f}"
