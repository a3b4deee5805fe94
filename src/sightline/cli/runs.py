"""``sightline runs``: what has been measured and stored."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli import output, reports
from sightline.cli.options import AsJson, Html, RunStore
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.answers.outline import Outline
    from sightline.runs import Run, Store

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

_Suite = Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this suite.", show_default=False)]
_Status = Annotated[
    str | None,
    typer.Option(metavar="STATUS", help="Only runs with this status: ok, crashed, ...", show_default=False),
]


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
    documents = lambda: [stamped(summary(run)) for run in chosen]  # noqa: E731 - a form like the table
    output.show(documents, lambda: [runs_outline(chosen) if chosen else none], json=as_json)


@runs.command()
def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run id, the start of one, or `latest`.", show_default=False)
    ],
    html: Html = None,
    full: Annotated[bool, typer.Option("--full", help="Show everything that is stored, one line per key.")] = False,
    store: RunStore = None,
    as_json: AsJson = False,
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
    output.show(document, text, json=as_json)


@runs.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="SQL query (DuckDB).", show_default=False)],
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
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN...]", help="Runs to export. Default: all.", show_default=False)
    ] = None,
    out: Annotated[str, typer.Option(metavar="FILE", help="Archive to write (.zip).")] = "runs.zip",
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
    from sightline.runs.store import RUNNING

    opened = _open(store)
    chosen = exportable(_named(opened, names)) if names else [r for r in opened.runs() if r.status != RUNNING]
    output.write_file(out, to_archive(opened, chosen))
    document = {"file": out, "runs": [run.id for run in chosen]}
    output.show(lambda: document, lambda: [f"exported {len(chosen)} runs to {out}"], json=as_json)


@runs.command("import")
def import_runs(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Archive written by `runs export`.", show_default=False)],
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
        typer.Argument(metavar="[RUN...]", help="Run ids, or the start of them.", show_default=False),
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
        try:
            run = store.find(name)
        except InputError as error:
            problems += error.problems
        else:
            found[run.id] = run
    if problems:
        raise InputError(problems)
    return list(found.values())
