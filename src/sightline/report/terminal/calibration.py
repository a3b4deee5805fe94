"""A calibration for people and as JSON: constants, rows, range covered, and what the fit leaves unexplained."""

from collections.abc import Iterator, Mapping
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
    kernels, fitted, covered = calibration.fit.constants, calibration.fit.rows, calibration.covered
    title = f"{calibration.device}, {calibration.part}: constants"
    if len(kernels) > MOST_COLUMNS:
        return plain_table(("kernel", "rows", "constants"), rows=_by_row(calibration), title=title)
    names = dict.fromkeys(name for constants in kernels.values() for name in constants)
    counts = dict.fromkeys(name for counts in fitted.values() for name in counts)
    columns = dict.fromkeys(c for ranges in covered.values() for c in ranges)
    rows = [
        *((name, *(_value(name, constants.get(name)) for constants in kernels.values())) for name in names),
        *((f"rows, {c.replace('_', ' ')}", *(_count(fitted.get(kernel, {}), c) for kernel in kernels)) for c in counts),
        *((f"{c} covered", *(_range(covered.get(kernel, {}), c) for kernel in kernels)) for c in columns),
        ("evidence", *("calibrated" if kernel in fitted else "with it" for kernel in kernels)),
    ]
    return plain_table(("constant",), tuple(kernels), rows, title=title)


def _by_row(calibration: "Calibration") -> Iterator[tuple[str, str, str]]:
    """The constants of very many kernels: a row for each, with its constants in words."""
    for kernel, constants in calibration.fit.constants.items():
        said = ", ".join(f"{name} {_value(name, value)}" for name, value in constants.items())
        yield kernel, _count(calibration.fit.rows.get(kernel, {}), "fitted"), said


def _residuals(calibration: "Calibration") -> Table:
    rows = (
        (
            *(kernel, name, f"{figures['rows']:.0f}"),
            *(f"{100 * figures[key]:.1f} %" for key in ("median", "p90")),
            f"{100 * figures['bias']:+.1f} %",
        )
        for kernel, ranges in calibration.fit.residuals.items()
        for name, figures in ranges.items()
    )
    title = "Errors of the fit: predicted over measured, less one"
    return plain_table(("kernel", "rows of"), ("rows", "median", "90th percentile", "bias"), rows, title=title)


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
