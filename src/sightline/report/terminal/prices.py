"""The prices of the catalog as text: what predictions take, beside what providers list."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from sightline.report.terminal.listing import Column, Listing

KINDS = ("on-demand", "reserved", "spot")
"""Ways to rent, as offers name them."""


def prices_table(entries: Mapping[str, Mapping[str, Any]]) -> Listing:
    """Return the price of every device in USD per hour that predictions take, and the ranges of what is listed."""
    ranges = [[_range(price, kind) for price in entries.values()] for kind in KINDS]
    ranges[0] = [found or str(price["evidence"]) for found, price in zip(ranges[0], entries.values(), strict=True)]
    figures = {
        "$/hour": list(map(_amount, entries.values())),
        **dict(zip(("on demand", "reserved", "spot"), ranges, strict=True)),
        "as of": [str(price["date"]) for price in entries.values()],
    }
    return Listing(
        labels=[Column(heading="name", cells=list(entries), is_number=False)],
        figures=[Column(heading=heading, cells=cells) for heading, cells in figures.items()],
        least=["as of"],
    )


def price_table(name: str, price: Mapping[str, Any]) -> RenderableType:
    """Return one device's price, where it comes from, and every offer with its provider, date and source."""
    about = f"{_amount(price)} USD per hour and device: {price['source']} ({price['date']}, {price['evidence']})"
    heading = (Text(name, style="bold"), Text(about, style="dim"))
    if not price.get("offers"):
        return Group(*heading)
    labels, *figures = offers_of(price).items()
    listing = Listing(
        labels=[Column(heading=labels[0], cells=labels[1], is_number=False)],
        figures=[Column(heading=heading, cells=cells, is_number=heading != "kind") for heading, cells in figures],
    )
    return Group(*heading, Text(), listing)


def offers_of(price: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what providers list for a device by column: provider and source, kind, date, USD per hour."""
    offers: Sequence[Mapping[str, Any]] = price.get("offers", ())
    return {
        "provider and source": [f"{offer['provider']}: {offer['source']}" for offer in offers],
        "kind": [str(offer["kind"]) for offer in offers],
        "date": [str(offer["date"]) for offer in offers],
        "$/hour": list(map(_amount, offers)),
    }


def _range(price: Mapping[str, Any], kind: str) -> str:
    """The lowest and the highest offer of a kind; empty where there is none."""
    listed = sorted(_of_kind(price, kind), key=float)
    return " - ".join(dict.fromkeys((listed[0], listed[-1]))) if listed else ""


def _of_kind(price: Mapping[str, Any], kind: str) -> Iterator[str]:
    return (_amount(offer) for offer in price.get("offers", ()) if offer["kind"] == kind)


def _amount(priced: Mapping[str, Any]) -> str:
    """Dollars per hour to the cent, as the column's heading has the unit."""
    return f"{float(str(priced['price']).removesuffix(' USD/hour')):.2f}"
