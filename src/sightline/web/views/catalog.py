"""Catalog: what Sightline knows of models, devices, networks, prices and technologies, each figure with its source."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from sightline.errors import InputError
from sightline.web.fields import START
from sightline.web.request import Asked
from sightline.web.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sightline.answers.outline import Link
    from sightline.render.html import Piece

KIND, NAME, WORD = "kind", "name", "word"
"""The fields: a kind of entries, one entry, and a word that entries hold."""


def answer(asked: Asked) -> "Piece":
    """Return the kinds, the entries of one, or one entry."""
    from sightline.answers.catalog import entries_outline, entry_outline, kinds_outline
    from sightline.catalog import KINDS, entry, kind_of, names
    from sightline.render.html import outline_piece

    if KIND not in asked.values:
        return outline_piece(kinds_outline({kind: names(kind) for kind in KINDS}, address))
    kind = _named(KIND, kind_of, asked.option(KIND))
    if name := asked.option(NAME):
        fields = _named(NAME, lambda written: entry(kind, written), name)
        outline = entry_outline(kind, name, fields, list(_links(kind, name)))
        return outline_piece(outline, level=3, title_level=2) + _covered(kind, name)
    entries = {name: entry(kind, name) for name in names(kind)}
    return outline_piece(entries_outline(kind, entries, address, asked.option(WORD)))


def _covered(kind: str, name: str) -> "Piece":
    """What predictions with a device or a framework rest on, folded; engines take too long for a page."""
    from sightline.answers.validation import COVERAGE_TITLE as TITLE
    from sightline.answers.validation import coverage_outline
    from sightline.render import html
    from sightline.validation.coverage import KINDS, cells_of

    quick = {of: table for table, of in KINDS.items() if table != "features"}
    if kind not in quick:
        return html.Piece()
    return html.folded(TITLE, html.outline_piece(coverage_outline(list(cells_of(quick[kind], name)))))


def _named(field: str, find: Any, written: str) -> Any:
    """What a field names; raise `InputError` with the nearest where there is none."""
    try:
        return find(written)
    except InputError as error:
        raise InputError([f"{field}: {problem}" for problem in error.problems]) from None


def address(kind: str, name: str) -> str:
    """Return the address that shows a kind, or an entry of it."""
    return f"/catalog?{urlencode({KIND: kind, **({NAME: name} if name else {})})}"


def _links(kind: str, name: str) -> "Iterator[Link]":
    """What leads on from an entry: to its kind, and to a prediction with it."""
    from sightline.answers.outline import Link

    yield Link(f"All {kind}", address(kind, ""))
    values = {"models": {"model": name}, "devices": {"cluster": f"8x {name}"}, "clusters": {"cluster": name}}.get(kind)
    if values:
        started = {key: START[key] for key in ("model", "cluster")}
        yield Link("Predict with it", f"/predict?{urlencode({**started, **values})}")


def context(asked: Asked) -> Mapping[str, Any]:
    """Return the kinds to choose from."""
    from sightline.catalog import KINDS

    return {"kinds": KINDS, "chosen": asked.option(KIND)}


VIEW: Final = View(
    name="catalog",
    title="Catalog",
    about="What predictions rest on: every figure with its source, date and kind of evidence.",
    answer=answer,
    context=context,
)
