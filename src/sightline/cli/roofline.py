"""``sightline roofline``: which matmuls of a layer arithmetic bounds and which memory."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli import output
from sightline.cli.options import AsCsv, AsJson, Chart, Settings, Sweeps
from sightline.errors import InputError

if TYPE_CHECKING:
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
    as_csv: AsCsv = False,
    chart: Chart = None,
    settings: Settings = None,
    sweeps: Sweeps = None,
) -> None:
    """Show which matmuls of a layer are compute-bound and which are memory-bound, in prefill and in decode.

    Each matmul has its sizes, FLOPs per byte, the device's ridge point, its time at the roofline and its predicted
    time. Attention has two matmuls, scores and context (the table of arXiv 2407.14645, for any model and device).

    \b
    Examples:
      sightline roofline examples/llama-2-7b-generate-a100.yaml
      sightline roofline examples/llama-2-7b-generate-a100.yaml --devices a100-sxm-80gb,h100-sxm-80gb
      sightline roofline examples/llama-2-7b-generate-a100.yaml --sweep workload.batch=1,16,256 --csv
      sightline roofline examples/llama-2-7b-generate-a100.yaml --set workload.batch=16 --chart roofline.svg
    """
    output.check({"--chart": chart}, json=as_json, csv=as_csv)
    asked = _on(_generations(file, settings or [], sweeps or []), _devices(devices))
    from sightline.prediction.operators.roofline_table import roofline_table
    from sightline.report import labels
    from sightline.report.terminal import analysis as report

    groups = [[roofline_table(one) for one in group] for group in asked]
    names = labels.variant_labels([group[0].scenario for group in groups])
    named = [(name, table) for name, group in zip(names, groups, strict=True) for table in group]
    if chart is not None:
        from sightline.report.charts.roofline import roofline_chart

        output.draw(chart, roofline_chart(named))
    output.show(
        lambda: report.rooflines_to_list([table for _, table in named]),
        lambda: map(report.classification, names, groups),
        json=as_json,
        one=True,
        csv=(lambda: report.rooflines_to_csv(named)) if as_csv else None,
    )


def _generations(file: str, settings: list[str], sweeps: list[str]) -> "list[GenerationScenario]":
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
