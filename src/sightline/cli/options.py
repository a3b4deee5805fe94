"""Options that several commands have, and commands whose options are the fields of a dataclass."""

import inspect
from collections.abc import Callable
from dataclasses import Field, field, fields
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from sightline.cli import completion

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="Scenario files (YAML, JSON or CSV); - reads stdin.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of tables.")]
Chart = Annotated[
    str | None,
    typer.Option(
        "--chart", metavar="OUT", help="Draw the answer into an .svg, .png or .html file, or write its numbers to .csv."
    ),
]
Html = Annotated[
    str | None, typer.Option("--html", metavar="REPORT", help="Write a report as one .html page that needs no network.")
]
Markdown = Annotated[
    str | None,
    typer.Option(
        "--markdown", metavar="OUT", help="Write the answer as Markdown for a pull request (.md); - prints it."
    ),
]
Charts = Annotated[
    str | None,
    typer.Option("--charts", metavar="DIR", help="Write every chart of the answer into a folder, as .svg and .csv."),
]
RunStore = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="DIR|URL",
        help="The store of runs: a folder or a URL such as s3://bucket/runs; default: SIGHTLINE_RUNS, "
        "else ~/.local/share/sightline/runs.",
    ),
]
Anchors = Annotated[
    list[str] | None,
    typer.Option(
        "--anchor",
        metavar="RUN|FILE|NAME",
        help="Correct predictions by what was measured on your cluster: a stored run, a file with a measured: block, "
        "a trace with its scenario as TRACE@SCENARIO, or a saved anchor; repeatable.",
        show_default=False,
    ),
]
SaveAnchor = Annotated[
    str | None,
    typer.Option(
        "--save-anchor", metavar="NAME", help="Keep what the anchors measured under a name.", show_default=False
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key of every scenario; repeatable.",
        autocompletion=completion.keys,
    ),
]
Sweeps = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=A,B,C",
        help="Ask for every value of a key; repeatable.",
        autocompletion=completion.keys,
    ),
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="KEY",
        help="Order several answers by a result key or a swept key; asked keeps their order. Default: in tables what "
        "fits first and then the fastest, in JSON and CSV asked.",
        show_default=False,
        autocompletion=completion.results,
    ),
]
Top = Annotated[
    str | None, typer.Option("--top", metavar="N", help="Show the first N of several answers.", show_default=False)
]

Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="KIND[:WHAT]",
        help="Who works: local, ray or dask, with a number of workers or a cluster's address, such as local:8 or "
        "dask:tcp://node0:8786; default: this process.",
        show_default=False,
    ),
]

Options = TypeVar("Options")


def option(default: Any, text: str, *names: str, metavar: str | None = None) -> Any:
    """Return a field of an options dataclass: its default, its help, and its names where they are not the field's."""
    return field(default=default, metadata={"names": names, "metavar": metavar, "help": text})


def _typed(one: Field[Any], hint: Any) -> Any:
    """A field's type with its option, as Typer has it."""
    if not one.metadata:
        return hint
    told = dict(one.metadata)
    names = told.pop("names") or (f"--{one.name.replace('_', '-')}",)
    return Annotated[hint, typer.Option(*names, show_default=bool(one.default), **told)]


def takes(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a function of an ``options`` dataclass a command whose options are its fields, in their order.

    A field is an ``option``, or annotated as Typer has it: ``Annotated[type, typer.Option(...)]``.
    """
    asked: tuple[Field[Any], ...] = fields(options)  # type: ignore[arg-type]
    hints = get_type_hints(options, include_extras=True)
    hints |= {one.name: _typed(one, hints[one.name]) for one in asked}

    def command(call: Callable[[Options], None]) -> Callable[..., None]:
        def invoke(**given: Any) -> None:
            call(options(**given))

        invoke.__doc__, invoke.__name__ = call.__doc__, call.__name__
        invoke.__annotations__ = hints
        invoke.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name]
                )
                for one in asked
            ]
        )
        return invoke

    return command
