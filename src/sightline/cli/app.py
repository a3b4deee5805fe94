"""The commands, put together."""

from typing import Annotated, Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from sightline.cli import completion, output
from sightline.cli.options import takes_options
from sightline.commands import COMMANDS
from sightline.on_demand import named
from sightline.progress import Cancelled

FUNCTIONS: Final = {name: f"sightline.{command.function}" for name, command in COMMANDS.items() if command.function}
"""Of the commands that the command line has: a function or a group of commands."""


FORMER: Final = {"--small": "--quick", "--overwrite": "--force"}
"""Options by what some commands called them, which stays accepted."""


DOCUMENTATION: Final = "Options and examples: sightline COMMAND --help. Documentation: docs/index.md of the source."


class _AsTyped:
    """Takes the value of an option as it was typed.

    Typer builds a validator of pydantic for every option, also for text and switches, which need none: loading pydantic
    takes longer than a prediction.
    """

    def coerce(self, value: Any, param: TyperArgument | TyperOption, **_: Any) -> Any:
        """Return the value; without any, an empty tuple for what may be given several times."""
        return () if value is None and (param.multiple or param.nargs == -1) else value


def _prepared(parameters: list[Any]) -> list[Any]:
    """Return the parameters without validators for text and switches, and without types in their help.

    Where a version of Typer says the types elsewhere, all keep the validators that it gives them.
    """
    for parameter in parameters:
        described = getattr(parameter, "type_descriptor", None)
        if getattr(described, "annotation", None) in (bool, str, list[str]):
            parameter.get_runtime_param = _AsTyped
        if isinstance(parameter, TyperArgument):
            parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]  # noqa: ARG005
            parameter.get_usage_pieces = lambda ctx, name=parameter.metavar: [name]  # type: ignore[method-assign,misc]  # noqa: ARG005
        elif getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class _Command(TyperCommand):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        text, examples_mark, examples = (self.help or "").partition("\b")
        paragraphs = (" ".join(one.split()) for one in text.strip().split("\n\n"))
        self.help = "\n\n".join(paragraphs) + f"\n\n{examples_mark}{examples}"

    def get_params(self, ctx: Any) -> list[Any]:
        return _prepared(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {name for parameter in self.params for name in parameter.opts}
        known = {former: name for former, name in FORMER.items() if name in own and former not in own}
        return super().parse_args(ctx, [known.get(word, word) for word in args])


class _Group(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            raise Cancelled from stopped  # Typer would end without a word

    def get_params(self, ctx: Any) -> list[Any]:
        return _prepared(super().get_params(ctx))


def command_line(first: str = "") -> typer.Typer:
    """Return the command line; where the ``first`` argument names a command, only that one is loaded.

    That is also the command of the line that a shell wants completed.
    """
    first = completion.typed_command() if completion.is_asked() else first
    app = typer.Typer(
        cls=_Group,
        # The options that install and show completion are the program's, not a command's.
        add_completion=completion.is_asked() or first not in FUNCTIONS,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True, epilog=DOCUMENTATION)(sightline)
    for name in (first,) if first in FUNCTIONS else FUNCTIONS:
        command, question = named(FUNCTIONS[name]), COMMANDS[name].question
        if isinstance(command, typer.Typer):
            for one in command.registered_commands:
                one.cls, one.callback = _Command, takes_options(one.callback) if one.callback else None
            app.add_typer(command, name=name, cls=_Group, rich_help_panel=question)
        else:
            app.command(name, cls=_Command, rich_help_panel=question)(takes_options(command))
    return app


def sightline(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Predict and measure large language models: speed, memory, cost and bottlenecks of training and inference.

    \b
    Examples:
      sightline predict --model llama-3.1-8b --cluster "8x h100"
      sightline plan --model llama-3.1-8b --cluster "64x h100" --tokens 2T
      sightline simulate --model llama-3.1-8b --cluster "1x h100" --rate 8
      sightline explore dram --quick
      sightline ui
    """
    if version:
        from sightline import __version__

        output.print_text(f"sightline {__version__}\n")
    elif context.invoked_subcommand is None:
        output.print_text(context.get_help() + "\n")
