"""``sightline validate``: predicted against published and measured results."""

from pathlib import Path
from typing import Annotated

import typer

from sightline.cli import output


def validate(
    suite: Annotated[
        str | None, typer.Argument(metavar="[SUITE]", help="One suite; without it, all.", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="SIGHTLINE_DATA", help="Folder with the public data sets.", show_default=False
        ),
    ] = None,
    cases: Annotated[bool, typer.Option("--cases", help="List every case with both values.")] = False,
    chart: Annotated[
        str | None, typer.Option(metavar="OUT", help="Draw predicted over measured into an .svg, .png or .html file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare predictions with published and measured results and print the errors of each suite.

    The small published tables are part of the catalog; the large sets are read from the data folder. Each suite has a
    part that constants were fitted on and a part that was kept for testing.

    \b
    Examples:
      sightline validate
      sightline validate --data DIR
      sightline validate korthikanti-table5 --cases
      sightline validate --data DIR --json
      sightline validate --data DIR --chart accuracy.svg
    """
    from sightline.cli.predict import CHART_ENDINGS
    from sightline.validation import validate as run_suites

    output.check_output_paths([("--chart", chart, CHART_ENDINGS)])
    report = run_suites(suite, data=data)
    if chart is not None:
        from sightline.report.drawing import draw
        from sightline.report.validation_chart import validation_chart

        output.write_file(chart, draw(validation_chart(report), chart))
    print(cases, as_json)
