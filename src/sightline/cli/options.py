"""Options that several commands have, and commands whose options are the fields of a dataclass."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from sightline.cli import completion, output
from sightline.cli.progress_bar import progress_bar
from sightline.errors import InputError
from sightline.quantities import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.loading.loader import Loaded
    from sightline.prediction.anchoring import Anchored


_Completes = Callable[..., list[str]] | None
"""Returns what a shell offers for what is typed so far."""


def described(text: str, *names: str, metavar: str | None = None, completes: _Completes = None) -> Any:
    """Return an option's help for ``Annotated``, and its names where they are not the parameter's."""
    return typer.Option(..., *names, metavar=metavar, help=text, autocompletion=completes)


def argument(text: str, metavar: str, completes: _Completes = None) -> Any:
    """Return an argument's help for ``Annotated``."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=completes)


Files = Annotated[
    list[str] | None,
    argument("Scenario files (YAML, JSON or CSV), or none with --model and --cluster. - reads stdin.", "[FILE...]"),
]
AsJson = Annotated[bool, described("Print one JSON document.", "--json")]
AsCsv = Annotated[bool, described("Print CSV.", "--csv")]
Verbose = Annotated[bool, described("Print everything, not only the first 25 lines.", "-v", "--verbose")]
Chart = Annotated[
    str | None,
    described("Write a chart to an .svg, .png or .html file, or its data to .csv.", "--chart", metavar="OUT"),
]
Html = Annotated[str | None, described("Write a self-contained .html report.", "--html", metavar="REPORT")]
Markdown = Annotated[
    str | None,
    described("Write Markdown for a pull request to a .md file. Use - to print it.", "--markdown", metavar="OUT"),
]
Charts = Annotated[
    str | None, described("Write all charts to this folder, as .svg and .csv.", "--charts", metavar="DIR")
]
RunStore = Annotated[
    str | None,
    described(
        "Where runs are stored: a folder, or a URL such as s3://bucket/runs. Default: SIGHTLINE_RUNS, or "
        "~/.local/share/sightline/runs.",
        "--store",
        metavar="DIR|URL",
    ),
]
Anchors = Annotated[
    list[str] | None,
    described(
        "Correct the prediction with a measurement from your cluster: a stored run, a file with a `measured:` block, "
        "TRACE@SCENARIO or RESULT@SCENARIO, or a saved anchor. Can be repeated.",
        "--anchor",
        metavar="RUN|FILE|NAME",
    ),
]
SaveAnchor = Annotated[str | None, described("Save the anchors under this name.", "--save-anchor", metavar="NAME")]
Settings = Annotated[
    list[str] | None,
    described(
        "Override a key in every scenario. Can be repeated.", "--set", metavar="KEY=VALUE", completes=completion.keys
    ),
]
Sweeps = Annotated[
    list[str] | None,
    described("Run every value of a key. Can be repeated.", "--sweep", metavar="KEY=A,B,C", completes=completion.keys),
]
SkipInvalid = Annotated[
    bool, described("Answer the scenarios that can be answered and count the others by reason.", "--skip-invalid")
]
Sort = Annotated[
    str | None,
    described(
        "Sort by a result key or a swept key; `asked` keeps the input order. Default: plans that fit, fastest first; "
        "input order in JSON and CSV.",
        "--sort",
        metavar="KEY",
        completes=completion.results,
    ),
]
Top = Annotated[str | None, described("Show only the first N results.", "--top", metavar="N")]


def first_of(top: str | None, most: int) -> int | None:
    """What --top says, up to ``most``; a number option would load pydantic."""
    if top is None:
        return None
    digits = top.lstrip("0") if top.isascii() and top.isdigit() else ""
    # Python refuses to read thousands of digits.
    if not digits or len(digits) > len(str(most)) or int(digits) > most:
        raise InputError(f"--top is {show(top)}; allowed: a whole number from 1 to {most:,}")
    return int(digits)


@dataclass(frozen=True, slots=True)
class Only:
    """Beside a dataclass in ``Annotated``: those of its options that a command has, in the order of its help."""

    names: tuple[str, ...]


def only(*names: str) -> Only:
    """Return which options of a dataclass a command has; the others keep their defaults."""
    return Only(names)


def option(default: Any, text: str, *names: str, metavar: str | None = None) -> Any:
    """Return a field of an options dataclass: its default, its help, and its names where they are not the field's."""
    return field(default=default, metadata={"option": described(text, *names, metavar=metavar)})


def takes_options(call: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command; a parameter that is a dataclass of options stands for its fields, in their order.

    A field is an ``option``, annotated as Typer has it, or again such a dataclass. ``Annotated[Options, only(...)]``
    is some of the fields. Only defaults that say anything are shown.
    """
    hints = get_type_hints(call, include_extras=True)
    stated = {one.name: (hints[one.name], one.default) for one in inspect.signature(call).parameters.values()}

    def invoke(**given: Any) -> None:
        call(**_put_together(stated, given))

    parameters = list(_parameters(stated))
    invoke.__doc__, invoke.__name__ = call.__doc__, call.__name__
    invoke.__annotations__ = {one.name: one.annotation for one in parameters}
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return invoke


_Stated = Mapping[str, tuple[Any, Any]]
"""Type and default by name."""


def _parameters(stated: _Stated) -> Iterator[inspect.Parameter]:
    """What Typer is told, dataclasses taken apart."""
    for name, (hint, default) in stated.items():
        if (options := _options_of(hint)) is None:
            for info in get_args(hint)[1:]:
                info.show_default = default is not inspect.Parameter.empty and bool(default)
                if isinstance(info, OptionInfo):
                    info.param_decls = info.param_decls or (f"--{name.replace('_', '-')}",)
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        else:
            yield from _parameters(_fields(*options))


def _put_together(stated: _Stated, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a function from what Typer read, dataclasses put together."""
    return {
        name: given[name]
        if (options := _options_of(hint)) is None
        else options[0](**_put_together(_fields(*options), given))
        for name, (hint, _) in stated.items()
    }


def _options_of(hint: Any) -> tuple[Any, tuple[str, ...]] | None:
    """A dataclass of options and which of its fields are asked for; None of any other type."""
    kind, *more = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if not is_dataclass(kind):
        return None
    chosen = next((one.names for one in more if isinstance(one, Only)), None)
    return kind, tuple(one.name for one in fields(kind)) if chosen is None else chosen


def _fields(options: Any, names: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    hints, by_name = get_type_hints(options, include_extras=True), {one.name: one for one in fields(options)}

    def stated(one: Field[Any], hint: Any) -> tuple[Any, Any]:
        told = one.metadata.get("option")
        default = inspect.Parameter.empty if one.default is MISSING else one.default
        return hint if told is None else Annotated[hint, told], default

    return {name: stated(by_name[name], hints[name]) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked without a file; next to a file, keys of it that are overridden."""

    model: str | None = option(None, "Catalog name, config.json, folder or Hugging Face name.", metavar="NAME|PATH")
    cluster: str | None = option(None, "Devices, such as '8x h100', or a catalog cluster.", metavar="CLUSTER")
    framework: str | None = option(None, "Training framework or inference engine.", metavar="NAME")
    tokens: str | None = option(None, "Training tokens of the whole run, such as 2T.", metavar="N")
    samples: str | None = option(None, "Training samples of an epoch.", metavar="N")
    epochs: str | None = option(None, "Epochs over --samples. Default: 1.", metavar="N")
    sequence: str | None = option(None, "Tokens per training sample, such as 8192.", metavar="N")
    batch: str | None = option(None, "Samples per optimizer step, or sequences generated at once.", metavar="N")
    prompt: str | None = option(None, "Prompt tokens of generation or a request.", metavar="N")
    output: str | None = option(None, "Output tokens of generation or a request.", metavar="N")
    rate: str | None = option(None, "Requests per second to serve, or such as 2x what a file states.", metavar="RATE")
    concurrency: str | None = option(None, "Requests in flight at most; without --rate, clients.", metavar="N")
    slo: str | None = option(None, "Limits for requests, such as 'ttft<=1s,tpot<=50ms'.", metavar="LIMITS")

    def stated(self) -> dict[str, str]:
        """Return the texts that are given, by option."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}

    def over(
        self, files: "Sequence[str] | None", settings: "Sequence[str] | None", task: str = ""
    ) -> "tuple[list[Any], list[str]]":
        """Return what the scenarios are read from, and what is set in them; without files, of a command's ``task``.

        Raises:
            InputError: Nothing is asked, or an option does not apply to the task.
        """
        stated, given = self.stated(), list(settings or ())
        if files and not stated:
            return list(files), given
        if not files and not (stated or given):
            raise InputError(NOT_ASKED)
        from sightline.loading.question import over_files, question

        if not files:
            return [question(stated, given, task)], given
        sources, options = over_files(files, stated)
        return list(sources), [*options, *given]


NOT_ASKED = "FILE is missing; needed: a scenario file, or --model and --cluster; `sightline examples` lists scenarios"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenarios:
    """The scenarios that several commands are asked about, and the measurements that correct their predictions."""

    files: Files = None
    question: Question = field(default_factory=Question)
    anchor: Anchors = None
    settings: Settings = None
    sweeps: Sweeps = None
    store: RunStore = None

    def read(self, *, skip_invalid: bool = False, task: str = "") -> "Loaded":
        """Return the scenarios of all files; say on stderr how many cells of sweeps cannot be, and why.

        Without files, the question is of a command's ``task``, if it has one. With ``skip_invalid``, scenarios with
        mistakes are left out (``Loaded.skipped``).
        """
        from sightline.loading import read_all

        stated = *self.question.over(self.files, self.settings, task), self.sweeps or ()
        # Files may be pipes that somebody else writes, so Ctrl-C ends the reading at once.
        with progress_bar(stops=False) as reading:
            loaded = read_all(*stated, possible_only=True, skip_invalid=skip_invalid, progress=reading)
        for remark in loaded.remarks():
            output.print_remark(remark)
        return loaded

    def again(self) -> list[str]:
        """Return the arguments with which the same scenarios are asked for again; none where they came from stdin."""
        return again(self.files, self.settings, self.sweeps, self.question)

    def known(self, name: str | None = None) -> "Anchored | None":
        """Return what the anchors teach, kept under a ``name`` if there is one; None without any."""
        return anchored_by(self.anchor, self.store, name)


def again(
    files: "Sequence[str] | None",
    settings: "Sequence[str] | None",
    sweeps: "Sequence[str] | None" = (),
    question: Question | None = None,
) -> list[str]:
    """Return the arguments with which the same is asked again; none where files came from stdin."""
    if "-" in (files or ()):
        return []
    options = [(f"--{name}", value) for name, value in (question.stated() if question else {}).items()]
    options += [("--set", one) for one in settings or ()] + [("--sweep", one) for one in sweeps or ()]
    return [*(files or ()), *(word for option in options for word in option)]


def anchored_by(anchors: list[str] | None, store: str | None, name: str | None = None) -> "Anchored | None":
    """Return what the anchors teach, kept under a ``name`` if there is one; None without any.

    Raises:
        InputError: Some anchor teaches nothing, or there is nothing to keep under the name.
    """
    if not anchors:
        if name is not None:
            raise InputError(f"--save-anchor '{name}' requires --anchor")
        return None
    from sightline.anchors.corrected import anchored
    from sightline.anchors.files import check_name
    from sightline.anchors.sources import save
    from sightline.runs import open_store

    if name is not None:
        check_name(open_store(store), name)
    known = anchored(anchors, store)
    if name is not None:
        save(known, name, store)
        output.print_remark(f"saved anchor '{name}'")
    return known
