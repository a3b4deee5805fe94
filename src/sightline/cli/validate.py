"""``sightline validate``: predicted against published and measured results."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli import output
from sightline.cli.options import AsJson, Chart
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.validation import Result


def validate(
    suite: Annotated[
        str | None,
        typer.Argument(
            metavar="[SUITE]", help="A suite, the beginning of its name, or a pattern with *.", show_default=False
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="SIGHTLINE_DATA", help="Folder with the public data sets.", show_default=False
        ),
    ] = None,
    cases: Annotated[bool, typer.Option("--cases", help="List every case with both values.")] = False,
    chart: Chart = None,
    as_json: AsJson = False,
) -> None:
    """Compare predictions with published and measured results and print the errors of each suite.

    There are suites of training, of generation and of single operators. The small published tables are part of the
    catalog. The large sets are read from the data folder. Each suite has a part that constants were fitted to and, if
    it has enough families, a part that was held out for testing.

    \b
    Examples:
      sightline validate
      sightline validate --data DIR
      sightline validate korthikanti-2022-table5 --cases
      sightline validate "matmul*h100*" --data DIR
      sightline validate --data DIR --json
      sightline validate --data DIR --chart accuracy.svg
    """
    output.check({"--chart": chart})
    results = _run(suite, data)
    from sightline.report.terminal import accuracy

    if chart is not None:
        from sightline.report.charts.accuracy import validation_chart

        output.draw(chart, validation_chart(results))
    output.show(
        lambda: accuracy.results_to_dict(results, cases=cases),
        lambda: [*(accuracy.case_table(r) for r in results if cases), accuracy.error_table(results)],
        json=as_json,
    )
    if data is None and suite is None and not as_json:
        output.print_text("\nThe larger sets of training and generation and all operators are read with --data DIR.\n")


def _run(suite: str | None, data: Path | None) -> "list[Result]":
    """Validate, and show on a terminal how far it is."""
    from sightline.validation import choose, evaluate, work_of

    if data is not None and not data.is_dir():
        raise InputError(f"--data '{data}' is not a folder")
    chosen = choose(suite, data)
    with output.progress(sum(map(work_of, chosen)), "validating") as advance:
        return evaluate(chosen, done=advance)
