"""The commands, put together."""

from typing import Annotated

import typer

from sightline.cli import output
from sightline.cli.calibrate import calibrate
from sightline.cli.catalog import catalog
from sightline.cli.compare import compare
from sightline.cli.measure import measure
from sightline.cli.predict import predict
from sightline.cli.roofline import roofline
from sightline.cli.runs import runs
from sightline.cli.sensitivity import sensitivity
from sightline.cli.validate import validate

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def sightline(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """How fast a large language model trains and generates, where time and memory go, and whether it fits.

    \b
    Examples:
      sightline predict examples/llama-2-7b-zero2-8xa800.yaml
      sightline predict examples/llama-2-70b-generate-4xh100.yaml
      sightline catalog devices
      sightline validate --data DIR
    """
    if version:
        from sightline import __version__

        output.print_text(f"sightline {__version__}\n")
    elif context.invoked_subcommand is None:
        output.print_text(context.get_help() + "\n")


app.command()(predict)
app.command()(measure)
app.command()(compare)
app.command()(roofline)
app.command()(sensitivity)
app.command()(catalog)
app.command()(validate)
app.command()(calibrate)
app.add_typer(runs, name="runs")
