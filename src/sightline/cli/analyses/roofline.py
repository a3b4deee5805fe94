"""``sightline roofline``: which matmuls of a layer arithmetic bounds and which memory."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import completion, options, output, reports
from sightline.cli.next_step import given, try_next
from sightline.cli.options import Settings, Sweeps, only, takes_options
from sightline.cli.reports import Report, ReportOptions
from sightline.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.answers.outline import Outline
    from sightline.prediction.roofline_table import AnyScenario, RooflineTable
    from sightline.profile import Profile


@takes_options
def roofline(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A generation scenario file; any task with --chart. Use - to read from stdin.",
            show_default=False,
        ),
    ],
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Catalog devices to use instead of the scenario's device.",
            autocompletion=completion.devices,
        ),
    ] = None,
    *,
    written: Annotated[ReportOptions, only("as_json", "as_csv", "chart", "charts", "html")],
    settings: Settings = None,
    sweeps: Sweeps = None,
) -> None:
    """Show which matmuls of a layer are compute-bound and which are memory-bound, in prefill and decode.

    For each matmul, the table shows its sizes, FLOPs per byte, the ridge point of the device, the time at the roofline
    and the predicted time. Attention has two matmuls, scores and context, as in arXiv 2407.14645. For a training step
    or a single operator, --chart draws every operator under the memory, L2 and link rooflines.

    \b
    Examples:
      sightline roofline examples/llama-2-7b-generate-a100.yaml
      sightline roofline examples/llama-2-7b-generate-a100.yaml --devices a100-sxm-80gb,h100-sxm-80gb
      sightline roofline examples/llama-2-7b-generate-a100.yaml --sweep workload.batch=1,16,256 --csv
      sightline roofline examples/llama-2-7b-generate-a100.yaml --set workload.batch=16 --chart roofline.svg
      sightline roofline examples/llama-2-7b-zero2-8xa800.yaml --chart roofline.svg
    """
    written.check()
    loaded = options.read([file], settings, sweeps)
    if (
        written == ReportOptions(chart=written.chart)
        and written.chart
        and not devices
        and _has_others(loaded.scenarios)
    ):
        _draw_operators(file, loaded.scenarios, written.chart)
        return
    groups = _classified(file, loaded.scenarios, devices)
    reports.write(_Report(groups, loaded.is_list), written)
    if written.are_tables and (again := given([file], settings, sweeps)):
        on = [] if devices is None else ["--devices", devices]
        try_next("roofline", *again, *on, "--chart", "roofline.svg")


def _classified(file: str, scenarios: "Sequence[AnyScenario]", devices: str | None) -> "list[list[RooflineTable]]":
    """The matmuls of each scenario on each device."""
    from sightline.prediction.roofline_table import roofline as of

    chosen = [None] if devices is None else [name.strip() for name in devices.split(",")]
    try:
        return [[of(one, device) for device in chosen] for one in scenarios]
    except InputError as error:
        raise InputError([f"'{file}': {problem}" for problem in error.problems]) from None


@dataclass(frozen=True)
class _Report(Report):
    groups: "list[list[RooflineTable]]"
    is_list: bool

    def _names(self) -> list[str]:
        from sightline.answers import labels

        return labels.variant_labels([group[0].scenario for group in self.groups])

    def charted(self) -> "list[tuple[str, RooflineTable]]":
        return [(name, table) for name, group in zip(self._names(), self.groups, strict=True) for table in group]

    def document(self) -> Any:
        from sightline.prediction.results import rooflines_to_list

        return rooflines_to_list([table for group in self.groups for table in group])

    def outline(self) -> "Outline":
        from sightline.answers.analyses import roofline_outline

        return roofline_outline(self.charted())

    def csv(self) -> str:
        from sightline.render.csv import rooflines_to_csv

        return rooflines_to_csv(self.charted())

    def chart(self, *room: Any) -> dict[str, Any]:
        from sightline.charts.rooflines import roofline_chart

        return roofline_chart(self.charted(), *room)


def _has_others(scenarios: "Sequence[object]") -> bool:
    """Whether scenarios are of another task than generation, whose matmuls have no table."""
    from sightline.scenario import GenerationScenario

    return not any(isinstance(one, GenerationScenario) for one in scenarios)


def _draw_operators(file: str, scenarios: "Sequence[AnyScenario]", path: str) -> None:
    """Draw every operator of one scenario on the roofline."""
    from sightline.prediction import predict

    if len(scenarios) != 1:
        raise InputError(f"--chart '{path}' draws one scenario; '{file}' has {len(scenarios):,}")
    profile = predict(scenarios[0])
    output.warn(profile.warnings)
    reports.write_chart(path, _Operators(profile))


@dataclass(frozen=True)
class _Operators(Report):
    profile: "Profile"
    without_chart = "the FLOP rate of every operator is unknown on this device"

    def chart(self, *room: Any) -> dict[str, Any] | None:
        from sightline.charts.index import chart_of

        return chart_of("roofline", self.profile, *room)
