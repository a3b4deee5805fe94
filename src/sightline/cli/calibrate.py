"""``sightline calibrate``: constants of a device from tables of measured operators."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sightline import catalog
from sightline.cli import output
from sightline.cli.options import AsJson, Chart, RunStore, option
from sightline.cli.progress_bar import progress_bar
from sightline.errors import InputError, nearest

if TYPE_CHECKING:
    from sightline.calibration.from_tables import Calibration, Tables

_ONLY = ("device", "library")
Made: TypeAlias = "tuple[list[Calibration], dict[str, Path], str]"
"""Constants, the files that they were written to, and how predictions take them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateOptions:
    """What constants are fitted to, and where they go."""

    tables: list[Path] | None = option(
        None, "Fit to a table, or to every table in a folder. Can be repeated.", "--from", metavar="TABLES"
    )
    device: str | None = option(None, "The catalog device the tables were measured on.", metavar="NAME")
    measure: bool = option(False, "Run the standard suite on this machine and fit to the results.")
    runs: list[str] | None = option(
        None, "Fit to a stored run, or to all runs of a suite. Can be repeated.", "--from-run", metavar="RUN"
    )
    quick: bool = option(False, "Measure a smaller suite: five minutes instead of ten. Requires --measure.")
    rerun: bool = option(False, "Ignore stored results and measure again. Requires --measure.")
    dtype: str = option("fp32", "Data type to measure: fp32, bf16 or fp16. Requires --measure.", metavar="NAME")
    store: RunStore = None
    part: str | None = option(None, "Fit only this part: matmul, collectives, grouped, ...", metavar="PART")
    only: list[str] | None = option(
        None, "Use only the rows of one device or library. Can be repeated.", metavar="COLUMN=VALUE"
    )
    shape: str = option(
        "", "Attention heads of InferSim tables whose file name omits them, such as 32-8-128.", metavar="SHAPE"
    )
    model: str | None = option(None, "The model whose layers LLMServingSim tables refer to.", metavar="NAME|PATH")
    out: Path | None = option(
        None, "Write the constants to this catalog folder, or a single part to a .yaml file.", metavar="DIR|FILE"
    )
    family: str | None = option(None, "Name of the calibration. Default: the device name.", metavar="NAME")
    overwrite: bool = option(False, "Overwrite files that exist.", "--force")
    chart: Chart = None
    as_json: AsJson = False


def calibrate(options: CalibrateOptions) -> None:
    """Fit device constants to measured operators and print the remaining errors.

    With --measure, benchmark this machine and write its constants to a catalog folder.

    Tables are recognized by their columns. Supported formats: AIConfigurator, Vidur, Frontier, InferSim, LLMServingSim,
    APEX+, nccl-tests output and Sightline results. Rows that the device cannot reach are rejected.

    \b
    Examples:
      sightline calibrate --measure --quick
      sightline calibrate --from-run latest --out my-catalog
      sightline calibrate --from examples/tables/matmuls-a100.csv --device a100-sxm-80gb --out my-catalog
      sightline calibrate --from nccl-tests.log --device h100-sxm-80gb --part collectives --json
      sightline calibrate --from TABLES --device a100-sxm-80gb --chart residuals.svg
    """
    output.check({"--chart": options.chart})
    if sum((options.tables is not None, options.runs is not None, options.measure)) != 1:
        raise InputError("give one of --from TABLES, --from-run RUN or --measure")
    if options.tables is not None and options.device is None:
        raise InputError("--device is required with --from: the catalog device the tables were measured on")
    is_here = options.tables is None or _is_processor_suite(options.tables, str(options.device))
    calibrations, paths, use = (_here if is_here else _from_tables)(options)
    if options.chart is not None:
        _draw(calibrations, options.chart)
    _print(calibrations, paths, use, as_json=options.as_json)


def _from_tables(options: CalibrateOptions) -> Made:
    """Constants of a device of the catalog."""
    from sightline.calibration.from_tables import calibrate as fit
    from sightline.calibration.from_tables import read_tables
    from sightline.calibration.writing import target_paths, write_calibrations

    device, kept = str(options.device), _kept(options.only or [])
    found = read_tables(options.tables or [], device, options.part, kept, shape=options.shape, model=options.model)
    for skipped in found.skipped:
        output.print_remark(f"skipped '{skipped}': unknown table format")
    out, name = options.out, options.family or device
    paths = target_paths(out, name, list(found.rows), overwrite=options.overwrite) if out is not None else {}
    with progress_bar(tables=True) as progress:
        calibrations = fit(found, progress)
    write_calibrations(calibrations if paths else [], paths)
    is_folder = out is not None and out not in paths.values()
    return calibrations, paths, _use(name, found, out) if is_folder else ""


def _use(family: str, found: "Tables", out: Path | None) -> str:
    """How a scenario takes the constants that were written into a folder."""
    from sightline.loading.clusters.this_machine import THIS_MACHINE

    device = found.cluster.device
    relatives = [name for name in (device.calibration, *device.relatives) if name not in ("generic", family)]
    others = f", relatives: [{', '.join(relatives)}]" if relatives else ""
    devices = device.name if device.name == THIS_MACHINE else f"8x {device.name}"
    return (
        f"To use these constants, set SIGHTLINE_CATALOG={out} and add to the scenario:\n  cluster: {{devices: "
        f"{devices}, device: {{calibration: {family}{others}}}}}"
    )


def _here(options: CalibrateOptions) -> Made:
    """Constants of this machine from what is measured now, or was."""
    from sightline.measurement import calibrate as here
    from sightline.runs import open_store

    folder = options.out or _default_folder()
    if options.runs is not None:
        fit = partial(here.calibrate_runs, options.runs, open_store(options.store))
    else:
        fit = partial(here.calibrate_results, *_results(options))
    with progress_bar(tables=True) as progress:
        made = fit(folder, output.print_remark, progress, overwrite=options.overwrite)
    known = str(folder) in os.environ.get(catalog.VARIABLE, "").split(os.pathsep)
    use = f"To use these constants for this-machine:\n  export {catalog.VARIABLE}={folder}"
    return *made, "" if known else use


def _default_folder() -> Path:
    """The catalog folder of the user: the first of ``SIGHTLINE_CATALOG``, else one next to the stored runs."""
    first = os.environ.get(catalog.VARIABLE, "").split(os.pathsep)[0]
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(first or f"{data}/sightline/catalog")


def _results(options: CalibrateOptions) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any], str]:
    """Results of operators and steps of this machine, from files or measured, and how they were asked for."""
    if options.tables is not None:
        names = ", ".join(path.name for path in options.tables)
        return _results_in(options.tables), {}, f"sightline calibrate --from {names}"
    from sightline.cli.measure import results_of_suite
    from sightline.loading.clusters.this_machine import THIS_MACHINE
    from sightline.measurement.calibrate import measured_models
    from sightline.runs import open_store

    if options.device not in (None, THIS_MACHINE):
        raise InputError(f"--device is '{options.device}'; --measure calibrates only {THIS_MACHINE}")
    results = results_of_suite(options.store, dtype=options.dtype, quick=options.quick, rerun=options.rerun)
    store = open_store(options.store)
    steps = measured_models(store, options.dtype, output.print_remark, rerun=options.rerun)
    return results, steps, "sightline calibrate --measure"


def _is_processor_suite(tables: list[Path], device: str) -> bool:
    """Whether the tables are the standard suite's results of this machine's processor."""
    from sightline.calibration.processor.operator_constants import is_of_processor, measurements
    from sightline.loading.clusters.this_machine import THIS_MACHINE

    return device == THIS_MACHINE and is_of_processor(measurements(_results_in(tables)))


def _results_in(tables: list[Path]) -> list[dict[str, Any]]:
    """Results of operators in JSON files; of other files none."""
    found: list[dict[str, Any]] = []
    for path in tables:
        try:
            said = json.loads(path.read_text(encoding="utf-8")) if path.suffix == ".json" else []
        except (OSError, ValueError):
            continue
        entries = said if isinstance(said, list) else [said]
        found += [r for r in entries if isinstance(r, dict) and isinstance(r.get("scenario"), dict)]
    return found


def _kept(only: list[str]) -> dict[str, str]:
    kept = {}
    for stated in only:
        column, equals, value = stated.partition("=")
        if not equals or column not in _ONLY:
            raise InputError(
                f"--only is '{stated}'; allowed: COLUMN=VALUE with column {' or '.join(_ONLY)}{nearest(column, _ONLY)}"
            )
        kept[column] = value.strip("'\"")
    return kept


def _draw(calibrations: "list[Calibration]", chart: str) -> None:
    from sightline.charts.accuracy import KernelFit, residual_chart

    fitted = [c for c in calibrations if c.fit.points]
    panels = [
        KernelFit(
            title=", ".join(dict.fromkeys((c.part, p.kernel))).replace("_", " "),
            size=p.size,
            unit=p.unit,
            ratio=p.predicted / p.measured,
        )
        for c in fitted
        for p in c.fit.points
    ]
    output.draw(chart, residual_chart(f"{fitted[0].device}: predicted / measured", panels))


def _print(calibrations: "list[Calibration]", paths: dict[str, Path], use: str, *, as_json: bool) -> None:
    from sightline.answers.validation import calibration_outline
    from sightline.calibration.writing import calibration_to_dict

    written = [f"wrote {path}" for path in paths.values()]
    output.show(
        lambda: [calibration_to_dict(c, str(paths[c.part]) if c.part in paths else None) for c in calibrations],
        lambda: [
            *map(calibration_outline, calibrations),
            *filter(None, ["\n".join([*written, use]).strip()]),
        ],
        json=as_json,
        in_full=True,
    )
