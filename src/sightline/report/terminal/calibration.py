"""A calibration for people and as JSON: constants, rows, range covered, and what the fit leaves unexplained."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.table import Table

from sightline.profile.results import stamped
from sightline.report import units
from sightline.report.terminal.parts import plain_table

if TYPE_CHECKING:
    from sightline.calibration.from_tables import Calibration

MOST_COLUMNS = 5
"""Kernels shown in columns; more are shown in rows."""


def tables(calibration: "Calibration") -> list[Table]:
    """Return the constants of each kernel, then the residuals of all."""
    return [_constants(calibration), _residuals(calibration)]


def to_dict(calibration: "Calibration", path: str | None = None) -> dict[str, Any]:
    """Return everything a calibration says."""
    fit = calibration.fit
    return stamped(
        {
            "device": calibration.device,
            "part": calibration.part,
            "source": calibration.source,
            "evidence": "calibrated",
            "constants": fit.constants,
            "rows": fit.rows,
            "covered": calibration.covered,
            "residuals": fit.residuals,
            "file": path,
        }
    )


def _constants(calibration: "Calibration") -> Table:
    kernels = calibration.fit.constants
    if len(kernels) > MOST_COLUMNS:
        return _by_row(calibration)
    table = plain_table(("constant",), title=f"{calibration.device}, {calibration.part}: constants")
    for kernel in kernels:
        table.add_column(kernel, justify="right", no_wrap=True)
    rows = dict.fromkeys(name for constants in kernels.values() for name in constants)
    for name in rows:
        table.add_row(name, *(_value(name, constants.get(name)) for constants in kernels.values()))
    table.add_section()
    fitted = calibration.fit.rows
    for count in dict.fromkeys(name for counts in fitted.values() for name in counts):
        table.add_row(
            f"rows, {count.replace('_', ' ')}", *(_count(fitted.get(kernel, {}), count) for kernel in kernels)
        )
    for column in dict.fromkeys(c for ranges in calibration.covered.values() for c in ranges):
        table.add_row(f"{column} covered", *(_range(calibration.covered.get(kernel, {}), column) for kernel in kernels))
    table.add_row("evidence", *("calibrated" if kernel in fitted else "with it" for kernel in kernels))
    return table


def _by_row(calibration: "Calibration") -> Table:
    """The constants of very many kernels: a row for each, with its constants in words."""
    table = plain_table(("kernel",), title=f"{calibration.device}, {calibration.part}: constants")
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("constants", overflow="fold")
    for kernel, constants in calibration.fit.constants.items():
        said = ", ".join(f"{name} {_value(name, value)}" for name, value in constants.items())
        table.add_row(kernel, _count(calibration.fit.rows.get(kernel, {}), "fitted"), said)
    return table


def _residuals(calibration: "Calibration") -> Table:
    table = plain_table(("kernel",), title="Errors of the fit: predicted over measured, less one")
    table.add_column("rows of", overflow="fold")
    for heading in ("rows", "median", "90th percentile", "bias"):
        table.add_column(heading, justify="right", no_wrap=True)
    for kernel, ranges in calibration.fit.residuals.items():
        for name, figures in ranges.items():
            shares = (f"{100 * figures[key]:.1f} %" for key in ("median", "p90"))
            table.add_row(kernel, name, f"{figures['rows']:.0f}", *shares, f"{100 * figures['bias']:+.1f} %")
    return table


def _value(name: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return "-" if value is None else str(value)
    return units.seconds(value) if name.endswith("_s") else f"{value:.3g}"


def _count(counts: Mapping[str, int], name: str) -> str:
    return f"{counts[name]:,}" if name in counts else "-"


def _range(ranges: Mapping[str, tuple[float, float]], column: str) -> str:
    if column not in ranges:
        return "-"
    low, high = ranges[column]
    shown = units.size if column == "bytes" else units.digits
    return shown(low) if low == high else f"{shown(low)} - {shown(high)}"
