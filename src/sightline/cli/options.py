"""Options that several commands have, and commands whose options are the fields of a dataclass."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from sightline.cli import completion, output
from sightline.errors import InputError
from sightline.progress import SILENT, Progress
from sightline.quantities import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.loading.loader import Loaded
    from sightline.prediction.anchoring import Anchored

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Scenario files (YAML, JSON or CSV). Use - to read from stdin.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
Chart = Annotated[
    str | None,
    typer.Option("--chart", metavar="OUT", help="Write a chart to an .svg, .png or .html file, or its data to .csv."),
]
Html = Annotated[str | None, typer.Option("--html", metavar="REPORT", help="Write a self-contained .html report.")]
Markdown = Annotated[
    str | None,
    typer.Option(
        "--markdown", metavar="OUT", help="Write Markdown for a pull request to a .md file. Use - to print it."
    ),
]
Charts = Annotated[
    str | None,
    typer.Option("--charts", metavar="DIR", help="Write all charts to this folder, as .svg and .csv."),
]
RunStore = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="DIR|URL",
        help="Where runs are stored: a folder, or a URL such as s3://bucket/runs. Default: SIGHTLINE_RUNS, or "
        "~/.local/share/sightline/runs.",
    ),
]
Anchors = Annotated[
    list[str] | None,
    typer.Option(
        "--anchor",
        metavar="RUN|FILE|NAME",
        help="Correct the prediction with a measurement from your cluster: a stored run, a file with a "
        "`measured:` block, TRACE@SCENARIO, or a saved anchor. Can be repeated.",
        show_default=False,
    ),
]
SaveAnchor = Annotated[
    str | None,
    typer.Option("--save-anchor", metavar="NAME", help="Save the anchors under this name.", show_default=False),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key in every scenario. Can be repeated.",
        autocompletion=completion.keys,
    ),
]
Sweeps = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=A,B,C",
        help="Run every value of a key. Can be repeated.",
        autocompletion=completion.keys,
    ),
]
SkipInvalid = Annotated[
    bool,
    typer.Option("--skip-invalid", help="Answer the scenarios that can be answered and count the others by reason."),
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="KEY",
        help="Sort by a result key or a swept key; `asked` keeps the input order. Default: plans that fit, "
        "fastest first; input order in JSON and CSV.",
        show_default=False,
        autocompletion=completion.results,
    ),
]
Top = Annotated[
    str | None, typer.Option("--top", metavar="N", help="Show only the first N results.", show_default=False)
]


def first_of(top: str | None, most: int) -> int | None:
    """What --top says, up to ``most``; a number option would load pydantic."""
    if top is None:
        return None
    digits = top.lstrip("0") if top.isascii() and top.isdigit() else ""
    # Python refuses to read thousands of digits.
    if not digits or len(digits) > len(str(most)) or int(digits) > most:
        raise InputError(f"--top is {show(top)}; allowed: a whole number from 1 to {most:,}")
    return int(digits)


Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="KIND[:WHAT]",
        help="Where to run: `local`, `ray` or `dask`, with a worker count or cluster address, such as local:8 or "
        "dask:tcp://node0:8786. Default: this process.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Only:
    """Beside a dataclass in ``Annotated``: those of its options that a command has, in the order of its help."""

    names: tuple[str, ...]


def only(*names: str) -> Only:
    """Return which options of a dataclass a command has; the others keep their defaults."""
    return Only(names)


def option(default: Any, text: str, *names: str, metavar: str | None = None) -> Any:
    """Return a field of an options dataclass: its default, its help, and its names where they are not the field's."""
    return field(default=default, metadata={"names": names, "metavar": metavar, "help": text})


def takes_options(call: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command; a parameter that is a dataclass of options stands for its fields, in their order.

    A field is an ``option``, annotated as Typer has it, or again such a dataclass. ``Annotated[Options, only(...)]``
    is some of the fields.
    """
    hints = get_type_hints(call, include_extras=True)
    asked = {one.name: (hints[one.name], one.default) for one in inspect.signature(call).parameters.values()}

    def invoke(**given: Any) -> None:
        call(**_put_together(asked, given))

    parameters = list(_parameters(asked))
    invoke.__doc__, invoke.__name__ = call.__doc__, call.__name__
    invoke.__annotations__ = {one.name: one.annotation for one in parameters}
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return invoke


_Asked = Mapping[str, tuple[Any, Any]]
"""Type and default by name."""


def _parameters(asked: _Asked) -> Iterator[inspect.Parameter]:
    """What Typer is told, dataclasses taken apart."""
    for name, (hint, default) in asked.items():
        if (options := _options_of(hint)) is None:
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        else:
            yield from _parameters(_fields(*options))


def _put_together(asked: _Asked, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a function from what Typer read, dataclasses put together."""
    found = {}
    for name, (hint, _) in asked.items():
        if (options := _options_of(hint)) is None:
            found[name] = given[name]
        else:
            found[name] = options[0](**_put_together(_fields(*options), given))
    return found


def _options_of(hint: Any) -> tuple[Any, tuple[str, ...]] | None:
    """A dataclass of options and which of its fields are asked for; None of any other type."""
    kind, *told = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if not is_dataclass(kind):
        return None
    chosen = next((one.names for one in told if isinstance(one, Only)), None)
    return kind, tuple(one.name for one in fields(kind)) if chosen is None else chosen


def _fields(options: Any, names: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    hints = get_type_hints(options, include_extras=True)
    by_name = {one.name: one for one in fields(options)}
    return {
        name: (
            _typed(by_name[name], hints[name]),
            inspect.Parameter.empty if by_name[name].default is MISSING else by_name[name].default,
        )
        for name in names
    }


def _typed(one: Field[Any], hint: Any) -> Any:
    """A field's type with its option, as Typer has it."""
    if not one.metadata:
        return hint
    told = dict(one.metadata)
    names = told.pop("names") or (f"--{one.name.replace('_', '-')}",)
    return Annotated[hint, typer.Option(*names, show_default=bool(one.default), **told)]


def read(
    files: "Sequence[str]",
    settings: "Sequence[str] | None",
    sweeps: "Sequence[str] | None",
    progress: Progress = SILENT,
    *,
    skip_invalid: bool = False,
) -> "Loaded":
    """Return the scenarios of all files; say on stderr how many cells of sweeps cannot be, and why.

    With ``skip_invalid``, scenarios with mistakes are left out (``Loaded.skipped``).
    """
    from sightline.loading import read_all

    loaded = read_all(
        files, settings or (), sweeps or (), possible_only=True, skip_invalid=skip_invalid, progress=progress
    )
    for remark in loaded.remarks():
        output.print_remark(remark)
    return loaded


def anchored_by(anchors: list[str] | None, name: str | None, store: str | None) -> "Anchored | None":
    """Return what the anchors teach, kept under a ``name`` if there is one; None without any.

    Raises:
        InputError: Some anchor teaches nothing, or there is nothing to keep under the name.
    """
    if not anchors:
        if name is not None:
            raise InputError(f"--save-anchor '{name}' requires --anchor")
        return None
    from sightline.anchors import anchored, save
    from sightline.anchors.files import check_name
    from sightline.runs import open_store

    if name is not None:
        check_name(open_store(store), name)
    known = anchored(anchors, store)
    if name is not None:
        save(known, name, store)
        output.print_remark(f"saved anchor '{name}'")
    return known
