"""Runs & compare: what was measured and watched, one run in full, and two of them, or one and its prediction."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from sightline.errors import InputError
from sightline.web.request import Asked
from sightline.web.views import View

if TYPE_CHECKING:
    from sightline.answers.outline import Link
    from sightline.render.html import Piece
    from sightline.runs import Run, Store

MOST: Final = 200
"""Runs of a list; the command line shows all."""
RUN, WITH, PREDICTED = "run", "with", "predicted"
"""The fields: a run's id, and what it is compared with, another one's or this word."""


def answer(asked: Asked) -> "Piece":
    """Return the list, the run that is asked for, or its comparison."""
    from sightline.answers.runs import run_outline, runs_outline
    from sightline.loading.sources import without_files
    from sightline.render.html import outline_piece
    from sightline.runs import open_store

    store = open_store()
    with without_files():
        if WITH in asked.values:
            return _compared(asked, store)
        if RUN in asked.values:
            run = found(RUN, asked, store)
            return outline_piece(run_outline(run, store, links=list(_links(run))), title_level=2)
        runs, count = store.newest(MOST)
        return outline_piece(runs_outline(runs, count, store.place, lambda run: address(run.id)))


def _compared(asked: Asked, store: "Store") -> "Piece":
    from sightline.answers.comparison import comparison_outline
    from sightline.explanation.comparison import compare
    from sightline.render.html import outline_piece

    other = asked.option(WITH)
    if RUN not in asked.values:
        raise InputError(f"{WITH} is '{other}', and there is no run to compare with it: choose one")
    # Runs, not their names, which might be those of files.
    b = PREDICTED if other == PREDICTED else found(WITH, asked, store)
    comparison = compare(found(RUN, asked, store), b, store=store.place)
    return outline_piece(comparison_outline(comparison), title_level=2)


def found(field: str, asked: Asked, store: "Store") -> "Run":
    """Return the run that a field names; raise `InputError` with the nearest where there is none."""
    try:
        return store.find(asked.option(field))
    except InputError as error:
        raise InputError([f"{field}: {problem}" for problem in error.problems]) from None


def address(run: str, other: str = "") -> str:
    """Return the address that shows a run, or its comparison."""
    return f"/runs?{urlencode({RUN: run, **({WITH: other} if other else {})})}"


def _links(run: "Run") -> "Iterator[Link]":
    """What leads on from a run."""
    from sightline.answers.outline import Link
    from sightline.answers.runs import is_comparable
    from sightline.watching.stream import SUITE

    yield Link("All runs", "/runs")
    if run.suite == SUITE:
        yield Link("Watch", f"/watch?{urlencode({'job': run.id})}")
    if is_comparable(run):
        yield Link("Compare with its prediction", address(run.id, PREDICTED))
        yield Link("Explain", f"/explain?{urlencode({RUN: run.id})}")


def context(asked: Asked) -> Mapping[str, Any]:
    """Return the runs to choose from, and which are chosen."""
    from sightline.answers.runs import choices
    from sightline.runs import open_store

    store = open_store()
    runs = _with_asked(store.newest(MOST)[0], asked, store)
    return {"choices": choices(runs), "chosen": {field: _chosen(field, asked, store) for field in (RUN, WITH)}}


def _with_asked(runs: "Sequence[Run]", asked: Asked, store: "Store") -> "Sequence[Run]":
    """The runs, with those that are asked for and are older."""
    ids = {run.id for run in runs}
    older = (store.find(name) for field in (RUN, WITH) if (name := _chosen(field, asked, store)) not in ("", PREDICTED))
    return [*runs, *{run.id: run for run in older if run.id not in ids}.values()]


def _chosen(field: str, asked: Asked, store: "Store") -> str:
    """The id that a field's text stands for; nothing where it stands for none."""
    text = asked.option(field)
    if not text or (field == WITH and text == PREDICTED):
        return text
    try:
        return store.find(text).id
    except InputError:
        return ""


VIEW: Final = View(
    name="runs",
    title="Runs",
    about="What was measured and watched: open a run, or compare it with another one or with its prediction.",
    answer=answer,
    context=context,
)
