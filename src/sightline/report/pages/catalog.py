"""The catalog as a page: its kinds, the entries of a kind, one entry with the source of each figure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sightline.report import pieces
from sightline.report.pieces import FAINT, Link, Piece
from sightline.report.terminal import catalog
from sightline.report.terminal.prices import offers_of

_SHOWN = 4
"""Names of a kind that stand for the others."""


def kinds_piece(listing: Mapping[str, Sequence[str]], address: Callable[[str, str], str]) -> Piece:
    """Return the kinds with their number of entries and a few names.

    Args:
        listing: The names of each kind.
        address: Returns the address that shows a kind, or an entry of it.
    """
    rows = [
        (Link(kind, address(kind, "")), f"{len(names):,}", ", ".join(names[:_SHOWN]) + ", ..." * (len(names) > _SHOWN))
        for kind, names in listing.items()
    ]
    return Piece(
        html=pieces.table(("kind", "entries", "for example"), rows, label="kinds", numbers=[False, True, False])
    )


def entries_piece(
    kind: str, entries: Mapping[str, Mapping[str, Any]], address: Callable[[str, str], str], word: str = ""
) -> Piece:
    """Return the entries of a kind with their main figures; of those with a ``word`` in their names or figures."""
    columns = catalog.columns_of(kind, entries)
    lines = zip(entries, *columns.values(), strict=True)
    found = [line for line in lines if word.lower() in " ".join(line).lower()]
    rows = [(Link(name, address(kind, name)), *cells) for name, *cells in found]
    said = f"{len(found):,} of {len(entries):,} {kind}" if word else f"{len(entries):,} {kind}"
    shown = pieces.table(("name", *columns), rows, label=kind, numbers=False) if rows else ""
    return pieces.joined(pieces.paragraphs([said], FAINT), shown)


def entry_piece(kind: str, name: str, fields: Mapping[str, Any], links: Sequence[Link] = ()) -> Piece:
    """Return one entry: what it is read as, each figure, and where it comes from."""
    is_price = kind == "prices"
    figures = catalog.figures_of({key: fields[key] for key in fields if not (is_price and key == "offers")})
    differs = any(note for _, _, note in figures)
    headings = ("figure", "value", *(["source, if different"] if differs else []))
    rows = figures if differs else [row[:2] for row in figures]
    meaning = catalog.meaning_of(kind, name)
    return pieces.joined(
        pieces.headline(name, 2),
        pieces.paragraphs([catalog.about(fields)], FAINT),
        pieces.buttons(links),
        pieces.section("Read as", pieces.table(("", ""), meaning, label="read as", numbers=False), level=3)
        if meaning
        else "",
        pieces.section("Offers", _offers(fields), level=3) if is_price else "",
        pieces.section("Figures", pieces.table(headings, rows, label="figures", numbers=False), level=3),
    )


def _offers(price: Mapping[str, Any]) -> str:
    """What providers list for a device."""
    if not price.get("offers"):
        return ""
    columns = offers_of(price)
    rows = list(zip(*columns.values(), strict=True))
    return pieces.table(tuple(columns), rows, label="offers", numbers=[False, False, False, True])
