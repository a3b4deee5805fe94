"""``sightline roofline``: which matmuls of a layer arithmetic bounds and which memory."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli import output
from sightline.cli.options import AsJson, Sweeps, refuse_two_formats
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.prediction.operators.roofline_table import RooflineTable
    from sightline.scenario import Device, GenerationScenario


def roofline(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A scenario file of generation; - reads stdin.", show_default=False)
    ],
    devices: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Devices of the catalog that replace the scenario's own."),
    ] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one line per matmul.")] = False,
    chart: Annotated[
        str | None, typer.Option(metavar="OUT", help="Draw the rooflines into an .svg, .png or .html file.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key; repeatable.")
    ] = None,
    sweeps: Sweeps = None,
) -> None:
    """Show which matmuls of a layer are compute-bound and which are memory-bound, in prefill and in decode.

    Each matmul has its sizes, FLOPs per byte, the device's ridge point, its time at the roofline and its predicted time.
    Attention has two matmuls, scores and context (the table of arXiv 2407.14645, for any model and device).

    \b
    Examples:
      sightline roofline examples/llama-2-7b-generate-a100.yaml
      sightline roofline examples/llama-2-7b-generate-a100.yaml --devices a100-sxm-80gb,h100-sxm-80gb
      sightline roofline examples/llama-2-7b-generate-a100.yaml --sweep workload.batch=1,16,256 --csv
      sightline roofline examples/llama-2-7b-generate-a100.yaml --set workload.batch=16 --chart roofline.svg
    """
    refuse_two_formats(as_json=as_json, as_csv=as_csv)
    output.check_output_paths([("--chart", chart, output.CHART_ENDINGS)])
    asked = _on(_read(file, settings or [], sweeps or []), _devices(devices))
    _print([[_table(one) for one in group] for group in asked], chart, as_json=as_json, as_csv=as_csv)


def _read(file: str, settings: list[str], sweeps: list[str]) -> "list[GenerationScenario]":
    from sightline.loading import load_all
    from sightline.scenario import GenerationScenario

    asked = load_all([file], settings, sweeps)
    found = [scenario for scenario in asked if isinstance(scenario, GenerationScenario)]
    if len(found) < len(asked):
        other = next(s.workload.task for s in asked if not isinstance(s, GenerationScenario))
        raise InputError(f"'{file}': workload.task is '{other}'; a roofline is of scenarios whose task is generate")
    return found


def _devices(names: str | None) -> "list[Device]":
    from sightline.loading.clusters import read_cluster

    return [] if names is None else [read_cluster(f"1x {name.strip()}").device for name in names.split(",")]


def _on(scenarios: "list[GenerationScenario]", devices: "list[Device]") -> "list[list[GenerationScenario]]":
    """Return each scenario on every device, or as it is."""
    return [
        [replace(one, cluster=replace(one.cluster, device=device)) for device in devices or [one.cluster.device]]
        for one in scenarios
    ]


def _table(scenario: "GenerationScenario") -> "RooflineTable":
    from sightline.prediction.operators.roofline_table import roofline_table

    return roofline_table(scenario)


def _print(groups: "list[list[RooflineTable]]", chart: str | None, *, as_json: bool, as_csv: bool) -> None:
    from sightline.report.terminal import roofline as table

    names = table.labels_of([group[0] for group in groups])
    tables = [table for group in groups for table in group]
    labels = [name for name, group in zip(names, groups, strict=True) for _ in group]
    if chart is not None:
        _draw(labels, tables, chart)
    if as_json:
        found = table.tables_to_list(tables)
        output.print_json(found[0] if len(found) == 1 else found)
    elif as_csv:
        output.print_text(table.tables_to_csv(labels, tables))
    else:
        for position, (name, group) in enumerate(zip(names, groups, strict=True)):
            output.print_text("\n" if position else "")
            output.print_table(table.classification(name, group))


def _draw(labels: list[str], tables: "list[RooflineTable]", chart: str) -> None:
    from sightline.report.charts.drawing import draw
    from sightline.report.charts.roofline import roofline_chart

    several = len(set(labels)) > 1
    panels = [
        (f"{label}, {t.scenario.cluster.device.name}" if several else t.scenario.cluster.device.name, t)
        for label, t in zip(labels, tables, strict=True)
    ]
    title = "Matmuls of a layer on the roofline" if several else labels[0]
    output.write_file(chart, draw(roofline_chart(title, panels), chart))
