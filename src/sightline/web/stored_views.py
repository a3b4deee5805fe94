"""Runs, Watch and Catalog: what was measured, what is watched while it trains, and what predictions rest on."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from sightline.answers import units
from sightline.answers.outline import Link
from sightline.answers.runs import choices, is_comparable, run_outline, runs_outline
from sightline.answers.watched import watch_outline, watches_outline
from sightline.catalog import KINDS, entry, kind_of, names
from sightline.catalog.index import called
from sightline.errors import InputError, prefixed
from sightline.loading.sources import without_files
from sightline.quantities import BYTES, BYTES_PER_SECOND, parse_quantity
from sightline.render import html
from sightline.render.html import Piece, outline_piece
from sightline.runs import Run, Store, open_store
from sightline.watching import WatchRecord, read, read_one
from sightline.web.fields import START
from sightline.web.request import Asked
from sightline.web.views import View, download

MOST: Final = 200
"""Runs of a list; the command line shows all."""
RUN, WITH, PREDICTED = "run", "with", "predicted"
"""The fields: a run's id, and what it is compared with, another one's or this word."""


def show_runs(asked: Asked) -> "Piece":
    """Return the list, the run that is asked for, or its comparison."""
    store = open_store()
    with without_files():
        if WITH in asked.values:
            return _compared(asked, store)
        if RUN in asked.values:
            run = find_run(RUN, asked, store)
            return outline_piece(run_outline(run, store, links=list(_run_links(run))), title_level=2)
        runs, count = store.newest(MOST)
        return outline_piece(runs_outline(runs, count, store.place, lambda run: run_address(run.id)))


def _compared(asked: Asked, store: "Store") -> "Piece":
    from sightline.answers.comparison import comparison_outline
    from sightline.explanation.comparison import compare

    other = asked.option(WITH)
    if RUN not in asked.values:
        raise InputError(f"{WITH} is '{other}', and there is no run to compare with it: choose one")
    # Runs, not their names, which might be those of files.
    b = PREDICTED if other == PREDICTED else find_run(WITH, asked, store)
    comparison = compare(find_run(RUN, asked, store), b, store=store.place)
    return outline_piece(comparison_outline(comparison), title_level=2)


def find_run(field: str, asked: Asked, store: "Store") -> "Run":
    """Return the run that a field names; raise `InputError` with the nearest where there is none."""
    with prefixed(f"{field}: "):
        return store.find(asked.option(field))


def run_address(run: str, other: str = "") -> str:
    """Return the address that shows a run, or its comparison."""
    return f"/runs?{urlencode({RUN: run, **({WITH: other} if other else {})})}"


def _run_links(run: "Run") -> "Iterator[Link]":
    """What leads on from a run."""
    from sightline.watching.stream import SUITE

    yield Link("All runs", "/runs")
    if run.suite == SUITE:
        yield Link("Watch", f"/watch?{urlencode({'job': run.id})}")
    if is_comparable(run):
        yield Link("Compare with its prediction", run_address(run.id, PREDICTED))
        yield Link("Explain", f"/explain?{urlencode({RUN: run.id})}")


def run_choices(asked: Asked) -> Mapping[str, Any]:
    """Return the runs to choose from, and which are chosen."""
    store = open_store()
    if not (runs := dict(choices(_with_asked(store.newest(MOST)[0], asked, store)))):
        return {}
    others = {"": "nothing", PREDICTED: "its prediction", **runs}
    run, other = (_chosen(field, asked, store) for field in (RUN, WITH))
    choosers = [(RUN, "run", {"": "all of them", **runs}, run), (WITH, "compared with", others, other)]
    return {"choosers": choosers, "follows": True}


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


RUNS: Final = View(
    name="runs",
    about="What was measured and watched: open a run, or compare it with another one or with its prediction.",
    answer=show_runs,
    context=run_choices,
)


JOB: Final = "job"
"""The field: the id of a watch, or ``latest``."""


def show_jobs(asked: Asked) -> "Piece":
    """Return the list of jobs, or the one that is asked for."""
    if JOB in asked.values:
        one = _watched(asked)
        return outline_piece(watch_outline(one, list(_job_links(one))), title_level=2)
    store = open_store()
    return outline_piece(watches_outline(read(store), store.place, lambda name: f"/watch?{urlencode({JOB: name})}"))


def _watched(asked: Asked) -> "WatchRecord":
    with prefixed(f"{JOB}: "):
        return read_one(asked.option(JOB))


def _job_links(one: "WatchRecord") -> "Iterator[Link]":
    """What leads on from a job."""
    yield Link("All jobs", "/watch")
    if one.run.status == "ok":
        yield Link("Its run", f"/runs?{urlencode({'run': one.id})}")


def job_form(asked: Asked) -> Mapping[str, Any]:
    """Say whether the answer changes by itself."""
    is_live = JOB not in asked.values or _watched(asked).is_running
    return {"live": is_live}


WATCH: Final = View(
    name="watch",
    about="Jobs that were or are being watched: what a step takes, what was predicted, and what to change.",
    answer=show_jobs,
    form=job_form,
)


KIND, NAME, WORD = "kind", "name", "word"
"""The fields: a kind of entries, one entry, and a word that entries hold."""


def show_catalog(asked: Asked) -> "Piece":
    """Return the kinds, the entries of one, or one entry."""
    from sightline.answers.catalog import entries_outline, entry_outline, kinds_outline

    if KIND not in asked.values:
        return outline_piece(kinds_outline({kind: names(kind) for kind in KINDS}, entry_address))
    with prefixed(f"{KIND}: "):
        kind = kind_of(asked.option(KIND))
    if name := asked.option(NAME):
        with prefixed(f"{NAME}: "):
            fields = entry(kind, name)
        outline = entry_outline(kind, name, fields, list(_entry_links(kind, name)))
        return outline_piece(outline, level=3, title_level=2) + _covered(kind, name)
    entries = {name: entry(kind, name) for name in names(kind)}
    return outline_piece(entries_outline(kind, entries, entry_address, asked.option(WORD)))


def _covered(kind: str, name: str) -> "Piece":
    """What predictions with a device or a framework rest on, folded; engines take too long for a page."""
    from sightline.answers.validation import COVERAGE_TITLE as TITLE
    from sightline.answers.validation import coverage_outline
    from sightline.validation.coverage import KINDS, cells_of

    quick = {of: table for table, of in KINDS.items() if table != "features"}
    if kind not in quick:
        return html.Piece()
    return html.folded(TITLE, html.outline_piece(coverage_outline(list(cells_of(quick[kind], name)))))


def entry_address(kind: str, name: str) -> str:
    """Return the address that shows a kind, or an entry of it."""
    return f"/catalog?{urlencode({KIND: kind, **({NAME: name} if name else {})})}"


def _entry_links(kind: str, name: str) -> "Iterator[Link]":
    """What leads on from an entry: to its kind, and to a prediction with it."""
    yield Link(f"All {kind}", entry_address(kind, ""))
    values = {"models": {"model": name}, "devices": {"cluster": f"8x {name}"}, "clusters": {"cluster": name}}.get(kind)
    if values:
        started = {key: START[key] for key in ("model", "cluster")}
        yield Link("Predict with it", f"/predict?{urlencode({**started, **values})}")


def catalog_kinds(asked: Asked) -> Mapping[str, Any]:
    """Return the kinds to choose from, and the word to look for."""
    kinds = {"": "all of them", **{kind: kind for kind in KINDS}}
    word = (WORD, "with the word", "h100, bf16, 2024", asked.option(WORD))
    return {"choosers": [(KIND, "kind", kinds, asked.option(KIND)), word]}


_REPOSITORY: Final = re.compile(r"[\w-]+/[\w.-]*\w")
_MAKERS = {
    "sm_": "nvidia",
    "gfx": "amd",
    "tpu": "google",
    "gau": "intel",
    "xe2": "intel",
    "trn": "aws",
    "asc": "huawei",
}
"""Makers of devices by how their architectures begin."""


def index_entry(kind: str, name: str) -> Mapping[str, str]:
    """Return an entry's kind and name, its size or memory, and further words that find it: makers, repositories."""
    stated = entry(kind, name) if kind in ("models", "devices", "clusters") else {}
    about = words = str(stated.get("devices", ""))
    if "parameters" in stated:
        words = next(iter(_REPOSITORY.findall(stated.get("source", ""))), "")
        about = f"{stated['parameters'] / 1e9:.3g} B {words}"
    elif "memory" in stated:
        bandwidth = units.rate(parse_quantity(stated["memory_bandwidth"], BYTES_PER_SECOND), "B/s")
        about = f"{units.size(parse_quantity(stated['memory'], BYTES))}, {bandwidth}"
        words = " ".join((_MAKERS.get(stated.get("architecture", "")[:3], ""), *called(name)))
    return {"kind": kind, "key": name, "about": about.strip(), "words": f"{name} {words}".lower()}


@cache
def catalog_index() -> str:
    """Return all entries as JSON. Forms of devices that nearly all servers have come first."""
    entries = [(kind, name) for kind in KINDS for name in sorted(names(kind), key=lambda one: "-sxm" not in one)]
    return json.dumps([index_entry(kind, name) for kind, name in entries], separators=(",", ":"))


def send_index(_: Asked) -> Response:
    """Answer with what finds each entry; a browser keeps it while people go from view to view."""
    return Response(catalog_index(), media_type="application/json", headers={"cache-control": "private, max-age=60"})


CATALOG: Final = View(
    name="catalog",
    about="What predictions rest on: every figure with its source, date and kind of evidence.",
    answer=show_catalog,
    context=catalog_kinds,
    further=[download("/index.json", send_index)],
)
