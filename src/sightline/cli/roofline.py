"""``sightline roofline``: which matmuls of a layer arithmetic bounds and which memory."""

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli import asked, completion, output, reports
from sightline.cli.next_step import given, try_next
from sightline.cli.options import AsCsv, AsJson, Chart, Charts, Html, Settings, Sweeps
from sightline.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.prediction.operators.roofline_table import AnyScenario


def roofline(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A scenario file of generation, or of any task for --chart; - reads stdin.",
            show_default=False,
        ),
    ],
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Devices of the catalog that replace the scenario's own.",
            autocompletion=completion.devices,
        ),
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    chart: Chart = None,
    charts: Charts = None,
    html: Html = None,
    settings: Settings = None,
    sweeps: Sweeps = None,
) -> None:
    """Show which matmuls of a layer are compute-bound and which are memory-bound, in prefill and in decode.

    Each matmul has its sizes, FLOPs per byte, the device's ridge point, its time at the roofline and its predicted
    time. Attention has two matmuls, scores and context (the table of arXiv 2407.14645, for any model and device).
    Of a training step or a single operator, --chart draws all operators below the lines of memory, L2 and links.

    \b
    Examples:
      sightline roofline examples/llama-2-7b-generate-a100.yaml
      sightline roofline examples/llama-2-7b-generate-a100.yaml --devices a100-sxm-80gb,h100-sxm-80gb
      sightline roofline examples/llama-2-7b-generate-a100.yaml --sweep workload.batch=1,16,256 --csv
      sightline roofline examples/llama-2-7b-generate-a100.yaml --set workload.batch=16 --chart roofline.svg
      sightline roofline examples/llama-2-7b-zero2-8xa800.yaml --chart roofline.svg
    """
    output.check({"--chart": chart, "--html": html}, json=as_json, csv=as_csv)
    reports.check_charts(charts)
    loaded = asked.read([file], settings, sweeps)
    if chart is not None and not any((devices, as_json, as_csv, charts, html)) and _has_others(loaded.scenarios):
        _draw_operators(file, loaded.scenarios, chart)
        return
    from sightline.prediction.operators.roofline_table import roofline as of
    from sightline.report import labels
    from sightline.report.terminal import analysis as report

    chosen = [None] if devices is None else [name.strip() for name in devices.split(",")]
    try:
        groups = [[of(one, device) for device in chosen] for one in loaded.scenarios]
    except InputError as error:
        raise InputError([f"'{file}': {problem}" for problem in error.problems]) from None
    names = labels.variant_labels([group[0].scenario for group in groups])
    named = [(name, table) for name, group in zip(names, groups, strict=True) for table in group]
    if chart is not None:
        from sightline.report.charts.rooflines.matmuls import roofline_chart

        output.draw(chart, roofline_chart(named))
    reports.write_charts(charts, named)
    if html is not None:
        from sightline.report.pages.roofline import roofline_page

        reports.write_page(html, lambda typed: roofline_page(named, command=typed))
    output.show(
        lambda: report.rooflines_to_list([table for _, table in named]),
        lambda: map(report.classification, names, groups),
        json=as_json,
        one=not loaded.is_list,
        csv=(lambda: report.rooflines_to_csv(named)) if as_csv else None,
    )
    if not (as_json or as_csv) and (again := given([file], settings, sweeps)):
        on = [] if devices is None else ["--devices", devices]
        try_next("roofline", *again, *on, "--chart", "roofline.svg")


def _has_others(scenarios: "Sequence[object]") -> bool:
    """Whether scenarios are of another task than generation, whose matmuls have no table."""
    from sightline.scenario import GenerationScenario

    return not any(isinstance(one, GenerationScenario) for one in scenarios)


def _draw_operators(file: str, scenarios: "Sequence[AnyScenario]", path: str) -> None:
    """Draw every operator of one scenario on the roofline."""
    from sightline.prediction import predict
    from sightline.report.charts.drawing import PHONE
    from sightline.report.charts.index import chart_of

    if len(scenarios) != 1:
        raise InputError(f"--chart '{path}' draws the operators of one scenario; '{file}' has {len(scenarios):,}")
    profile = predict(scenarios[0])
    output.warn(profile.warnings)
    drawn = chart_of("roofline", profile)
    if drawn is None:
        output.print_remark("no chart was drawn: nothing on this device does FLOPs whose rate is known")
        return
    output.draw(path, drawn, lambda: chart_of("roofline", profile, PHONE) or drawn)
