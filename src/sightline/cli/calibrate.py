"""``sightline calibrate``: constants of a device from tables of measured operators."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli import output
from sightline.errors import InputError, nearest

if TYPE_CHECKING:
    from sightline.calibration.from_tables import Calibration, Tables

_ONLY = ("device", "library")


def calibrate(
    tables: Annotated[
        list[Path],
        typer.Option("--from", metavar="TABLES", help="A table or a folder of tables; repeatable.", show_default=False),
    ],
    device: Annotated[
        str, typer.Option(metavar="NAME", help="The device of the catalog they were measured on.", show_default=False)
    ],
    part: Annotated[
        str | None, typer.Option(metavar="PART", help="Fit one part: matmul, collectives, grouped, ...")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="Keep the rows of one device or library; repeatable."),
    ] = None,
    shape: Annotated[
        str,
        typer.Option(metavar="SHAPE", help="Heads of InferSim's attention where the file's name lacks them: 32-8-128."),
    ] = "",
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model whose layers LLMServingSim's tables name.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|FILE", help="Write the constants: into a catalog folder, or one part into a .yaml file."
        ),
    ] = None,
    family: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the calibration; without it, the device's.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are already there.")] = False,
    chart: Annotated[
        str | None, typer.Option(metavar="OUT", help="Draw predicted over measured into an .svg, .png or .html file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Fit a device's constants to tables of measured operators, and say what the fit leaves unexplained.

    Tables are recognised by their columns, whatever their names: those of AIConfigurator, Vidur, Frontier, InferSim,
    LLMServingSim, APEX+, the output of nccl-tests, and results of Sightline's own. Rows no device could have measured
    are refused.

    \b
    Examples:
      sightline calibrate --from examples/tables/matmuls-a100.csv --device a100-sxm-80gb
      sightline calibrate --from examples/tables/matmuls-a100.csv --device a100-sxm-80gb --out my-catalog
      sightline calibrate --from nccl-tests.log --device h100-sxm-80gb --part collectives --json
      sightline calibrate --from TABLES --device a100-sxm-80gb --chart residuals.svg
    """
    output.check_output_paths([("--chart", chart, output.CHART_ENDINGS)])
    from sightline.calibration.from_tables import read_tables
    from sightline.calibration.writing import target_paths, write_calibrations

    found = read_tables(tables, device, part, _kept(only or []), shape=shape, model=model)
    for skipped in found.skipped:
        output.print_remark(f"'{skipped}' is no table of a known format; left out")
    name = family or device
    paths = target_paths(out, name, list(found.rows), overwrite=overwrite) if out is not None else {}
    calibrations = _fit(found)
    if paths:
        write_calibrations(calibrations, paths, _this_month())
    if chart is not None:
        _draw(calibrations, chart)
    _print(calibrations, paths, as_json=as_json)
    if out is not None and not as_json and all(path != out for path in paths.values()):
        _print_use(name, found, out)


def _kept(only: list[str]) -> dict[str, str]:
    kept = {}
    for stated in only:
        column, equals, value = stated.partition("=")
        if not equals or column not in _ONLY:
            raise InputError(
                f"--only '{stated}' is not of the form COLUMN=VALUE; columns: {', '.join(_ONLY)}{nearest(column, _ONLY)}"
            )
        kept[column] = value.strip("'\"")
    return kept


def _fit(found: "Tables") -> "list[Calibration]":
    """Fit, and show on a terminal how far it is."""
    from sightline.calibration.from_tables import calibrate as fit
    from sightline.calibration.from_tables import kernels

    with output.progress(kernels(found), "fitting", least=1) as advance:
        return fit(found, advance)


def _draw(calibrations: "list[Calibration]", chart: str) -> None:
    from sightline.report.drawing import draw
    from sightline.report.residual_chart import Panel, residual_chart

    panels = [
        Panel(
            title=", ".join(dict.fromkeys((c.part, p.kernel))).replace("_", " "),
            size=p.size,
            unit=p.unit,
            ratio=p.predicted / p.measured,
        )
        for c in calibrations
        for p in c.fit.points
    ]
    output.write_file(chart, draw(residual_chart(f"{calibrations[0].device}: predicted over measured", panels), chart))


def _print(calibrations: "list[Calibration]", paths: dict[str, Path], *, as_json: bool) -> None:
    from sightline.report.calibration import tables, to_dict

    if as_json:
        output.print_json([to_dict(c, str(paths[c.part]) if c.part in paths else None) for c in calibrations])
        return
    for calibration in calibrations:
        for table in tables(calibration):
            output.print_table(table)
            output.print_text("\n")
    for path in paths.values():
        output.print_text(f"written: {path}\n")


def _print_use(family: str, found: "Tables", out: Path) -> None:
    from sightline.report.calibration import use

    device = found.cluster.device
    relatives = [name for name in (device.calibration, *device.relatives) if name not in ("generic", family)]
    output.print_text(use(family, device.name, relatives, str(out)))


def _this_month() -> str:
    from datetime import UTC, datetime

    return f"{datetime.now(UTC):%Y-%m}"
