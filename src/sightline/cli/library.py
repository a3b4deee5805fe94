"""``sightline catalog`` and ``runs``: what is known, with its sources, and what was measured and stored."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli import completion, output, reports
from sightline.cli.options import AsJson, Html, RunStore, Verbose, argument, described
from sightline.cli.output import try_next
from sightline.errors import InputError, noted, refuse

if TYPE_CHECKING:
    from sightline.answers.outline import Outline
    from sightline.runs import Run, Store

ANCHORS = "anchors"
"""The kind of entries that users make."""


def catalog(
    kind: Annotated[str | None, argument("Category to list.", "[KIND]", completion.kinds)] = None,
    name: Annotated[str | None, argument("Entry to show.", "[NAME]", completion.names)] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    delete: Annotated[bool, described("Delete the anchor NAME.")] = False,
    store: RunStore = None,
) -> None:
    """List models, devices, prices, nodes, memories, links, frameworks, calibrations and published results.

    `sightline catalog anchors` lists the anchors saved with --save-anchor and their corrections.

    \b
    Examples:
      sightline catalog
      sightline catalog devices
      sightline catalog devices a100-sxm-80gb
      sightline catalog models --json
      sightline catalog anchors our-cluster
    """
    if kind is not None and kind.lower() in (ANCHORS, ANCHORS.removesuffix("s")):
        _anchors(name, store, as_json=as_json, delete=delete, verbose=verbose)
        return
    if delete or store is not None:
        raise InputError("--delete and --store apply only to anchors; try `sightline catalog anchors NAME --delete`")
    from sightline.answers.catalog import entries_outline, entry_outline, kinds_outline
    from sightline.catalog import KINDS, entry, kind_of, name_of, names, said_of
    from sightline.profile.results import stamped

    if kind is None:
        listing = {k: list(names(k)) for k in KINDS}
        output.show(lambda: listing, lambda: [kinds_outline(listing)], json=as_json)
        _go_on(as_json, "catalog", "devices")
        return
    of = kind_of(kind, (ANCHORS,))
    if name is not None:
        if remark := said_of(of, name):
            output.print_remark(remark)
        name = name_of(of, name)
        one = dict(entry(of, name))
        document = stamped({"kind": of, "name": name, **one})
        output.show(lambda: document, lambda: [entry_outline(of, name, one)], json=as_json, in_full=verbose)
        _go_on(as_json, *_use(of, name))
    else:
        several = {n: dict(entry(of, n)) for n in names(of)}
        documents = lambda: [stamped({"name": n, **fields}) for n, fields in several.items()]  # noqa: E731 - as above
        output.show(documents, lambda: [entries_outline(of, several)], json=as_json)
        _go_on(as_json, "catalog", of, next(iter(several)))


def _go_on(as_json: bool, *words: str) -> None:
    if not as_json:
        try_next(*words)


def _use(kind: str, name: str) -> list[str]:
    """Words of a command that uses an entry."""
    use = {"devices": f"cluster=8x {name}", "models": f"model={name}", "clusters": f"cluster={name}"}
    return ["predict", "SCENARIO.yaml", "--set", use[kind]] if kind in use else []


def _anchors(name: str | None, store: str | None, *, as_json: bool, delete: bool, verbose: bool) -> None:
    """Show all saved anchors, or show or delete one."""
    from sightline.anchors.files import delete_anchor, read_anchor
    from sightline.anchors.sources import listing
    from sightline.answers.catalog import anchor_outline, anchors_outline
    from sightline.runs import open_store

    opened = open_store(store)
    if delete:
        if name is None:
            raise InputError("--delete requires an anchor name; list them with `sightline catalog anchors`")
        delete_anchor(opened, name)
        output.show(lambda: {"deleted": name}, lambda: [f"deleted anchor '{name}'"], json=as_json)
    elif name is not None:
        one = read_anchor(opened, name)
        output.show(lambda: one, lambda: [anchor_outline(one)], json=as_json, in_full=verbose)
    else:
        found = listing(store)
        none = f"no anchors in {opened.place}; save one with `sightline predict FILE --anchor RUN --save-anchor NAME`"
        output.show(lambda: found, lambda: [anchors_outline(found) if found else none], json=as_json)


runs = typer.Typer(
    help="""Manage stored runs: measurements with their results and environment.

    \b
    Examples:
      sightline runs list
      sightline runs query "SELECT name, status FROM runs"
    """,
    no_args_is_help=False,
    rich_markup_mode="rich",
)

_Suite = Annotated[str | None, described("Only runs of this suite.", metavar="NAME")]
_Status = Annotated[str | None, described("Only runs with this status: ok, crashed, ...", metavar="STATUS")]


@runs.callback(invoke_without_command=True)
def group(context: typer.Context) -> None:
    """Print help if no command is given."""
    if context.invoked_subcommand is None:
        output.print_text(context.get_help() + "\n")


@runs.command("list")
def list_runs(suite: _Suite = None, status: _Status = None, store: RunStore = None, as_json: AsJson = False) -> None:
    """List runs, oldest first.

    \b
    Examples:
      sightline runs list
      sightline runs list --status ok --json
    """
    from sightline.answers.runs import runs_outline, summary
    from sightline.profile.results import stamped

    opened = _open(store)
    chosen = _chosen(opened, suite, status)
    none = f"no runs in {opened.place}"
    output.show(
        lambda: [stamped(summary(run)) for run in chosen],
        lambda: [runs_outline(chosen) if chosen else none],
        json=as_json,
    )


@runs.command()
def show(
    run: Annotated[str, argument("Run id, the start of one, or `latest`.", "RUN")],
    html: Html = None,
    full: Annotated[bool, described("Show everything that is stored, one line per key.")] = False,
    store: RunStore = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show a run: scenario, figures, time breakdown, machine and prediction.

    \b
    Examples:
      sightline runs show latest
      sightline runs show latest --full
      sightline runs show latest --html run.html
      sightline runs show 20261121-104239 --json
    """
    from dataclasses import asdict

    output.check({"--html": html}, json=as_json)
    from sightline.answers.runs import age, in_full, run_outline

    opened = _open(store)
    found = opened.find(run)

    def document() -> dict[str, object]:
        rows, samples = opened.rows(found), opened.samples(found)
        return {**asdict(found), "rows": rows.to_dicts(), "samples": samples.to_dicts()}

    def text() -> "list[Outline]":
        if full:
            return [in_full(found, opened.rows(found), opened.samples(found))]
        return [run_outline(found, opened, since=f"{age(found)} ago")]

    if html is not None:
        from sightline.render.document import outline_page

        output.write_file(html, outline_page(run_outline(found, opened), command=reports.typed()))
    output.show(document, text, json=as_json, in_full=verbose or full)


@runs.command()
def query(
    sql: Annotated[str, argument("SQL query (DuckDB).", "SQL")],
    store: RunStore = None,
    as_json: AsJson = False,
) -> None:
    """Query runs with SQL. The tables are runs, samples and rows.

    Result keys are columns of runs; nested keys are joined with _ (memory_bytes_total). The column run of samples and
    rows holds the run id.

    \b
    Examples:
      sightline runs query "SELECT name, step_time_s FROM runs ORDER BY step_time_s"
      sightline runs query "SELECT module, sum(time_s) FROM rows GROUP BY module" --json
    """
    from sightline.answers.runs import query_outline
    from sightline.runs.exchange import query as ask

    columns, found = ask(_open(store), sql)
    documents = [dict(zip(columns, row, strict=True)) for row in found]
    output.show(lambda: documents, lambda: [query_outline(columns, found)], json=as_json)


@runs.command()
def export(
    names: Annotated[list[str] | None, argument("Runs to export. Default: all.", "[RUN...]")] = None,
    out: Annotated[str, described("Archive to write (.zip).", metavar="FILE")] = "runs.zip",
    store: RunStore = None,
    as_json: AsJson = False,
) -> None:
    """Export runs to an archive for `runs import`.

    \b
    Examples:
      sightline runs export --out runs.zip
      sightline runs export latest --out run.zip
    """
    output.check({"--out": out}, out=(".zip",))
    from sightline.runs.exchange import exportable, to_archive
    from sightline.runs.store import RUNNING, UNREADABLE

    opened = _open(store)
    chosen = (
        exportable(_named(opened, names))
        if names
        else [r for r in opened.runs() if r.status not in (RUNNING, *UNREADABLE)]
    )
    output.write_file(out, to_archive(opened, chosen))
    document = {"file": out, "runs": [run.id for run in chosen]}
    output.show(lambda: document, lambda: [f"exported {len(chosen)} runs to {out}"], json=as_json)


@runs.command("import")
def import_runs(
    file: Annotated[Path, argument("Archive written by `runs export`.", "FILE")],
    store: RunStore = None,
    as_json: AsJson = False,
) -> None:
    """Import runs from an archive. Existing runs are not changed.

    \b
    Examples:
      sightline runs import runs.zip
    """
    from sightline.runs.exchange import from_archive

    opened = _open(store)
    new, there = from_archive(opened, file)
    before = f", {len(there)} already there" if there else ""
    said = f"imported {len(new)} runs into {opened.place}{before}"
    output.show(lambda: {"imported": new, "there": there}, lambda: [said], json=as_json)


@runs.command()
def delete(
    names: Annotated[
        list[str] | None,
        argument("Run ids, or the start of them.", "[RUN...]"),
    ] = None,
    suite: _Suite = None,
    status: _Status = None,
    store: RunStore = None,
    as_json: AsJson = False,
) -> None:
    """Delete runs by id, suite or status.

    \b
    Examples:
      sightline runs delete 20261121-104239
      sightline runs delete --status interrupted
    """
    if bool(names) == bool(suite or status):
        raise InputError("give run ids, or select runs with --suite or --status")
    opened = _open(store)
    chosen = _named(opened, names) if names else _chosen(opened, suite, status)
    opened.delete(chosen)
    document = {"deleted": [run.id for run in chosen]}
    output.show(lambda: document, lambda: [f"deleted {len(chosen)} runs"], json=as_json)


def _open(place: str | None) -> "Store":
    from sightline.runs import open_store

    return open_store(place)


def _chosen(store: "Store", suite: str | None, status: str | None) -> "list[Run]":
    found = store.runs()
    wanted = status.replace(" ", "_") if status else None
    return [run for run in found if suite in (None, run.suite) and wanted in (None, run.status)]


def _named(store: "Store", names: list[str]) -> "list[Run]":
    """Return the runs, each once; every name that is none is a problem of its own."""
    found: dict[str, Run] = {}
    problems: list[str] = []
    for name in names:
        with noted(problems):
            run = store.find(name)
            found[run.id] = run
    refuse(problems)
    return list(found.values())
