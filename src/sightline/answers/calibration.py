"""A calibration: the constants of each kernel, and how far the fit is from the measurements."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sightline.answers import units
from sightline.answers.outline import Outline, Rows
from sightline.quantities import percent

if TYPE_CHECKING:
    from sightline.calibration.from_tables import Calibration

MOST_COLUMNS = 5
"""Kernels shown in columns; more are shown in rows."""


def calibration_outline(calibration: "Calibration") -> Outline:
    """Return the constants of each kernel, then the residuals of all."""
    return Outline(
        title=f"{calibration.device}, {calibration.part}", parts=[_constants(calibration), _residuals(calibration)]
    )


def _constants(calibration: "Calibration") -> Rows:
    kernels, fitted, covered = calibration.fit.constants, calibration.fit.rows, calibration.covered
    if len(kernels) > MOST_COLUMNS:
        headings = ("kernel", "rows", "constants")
        return Rows(title="Constants", headings=headings, rows=list(_by_row(calibration)), numbers=False)
    rows: list[tuple[str, ...]] = [
        (name, *(_value(name, constants.get(name)) for constants in kernels.values())) for name in _keys(kernels)
    ]
    for count in _keys(fitted):
        counted = (_count(fitted.get(kernel, {}), count) for kernel in kernels)
        rows.append((f"rows, {count.replace('_', ' ')}", *counted))
    for column in _keys(covered):
        ranges = (_range(covered.get(kernel, {}), column) for kernel in kernels)
        rows.append((f"{column} covered", *ranges))
    rows.append(("evidence", *("calibrated" if kernel in fitted else "with it" for kernel in kernels)))
    return Rows(title="Constants", headings=("constant", *kernels), rows=rows)


def _keys(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, None]:
    """The keys of all kernels' tables, each once."""
    return dict.fromkeys(key for table in tables.values() for key in table)


def _by_row(calibration: "Calibration") -> Iterator[tuple[str, str, str]]:
    """The constants of very many kernels: a row for each, with its constants in words."""
    for kernel, constants in calibration.fit.constants.items():
        said = ", ".join(f"{name} {_value(name, value)}" for name, value in constants.items())
        yield kernel, _count(calibration.fit.rows.get(kernel, {}), "fitted"), said


def _residuals(calibration: "Calibration") -> Rows:
    rows = [
        (
            *(kernel, name, f"{figures['rows']:.0f}"),
            *(percent(figures[key], 1) for key in ("median", "p90")),
            percent(figures["bias"], 1, signed=True),
        )
        for kernel, ranges in calibration.fit.residuals.items()
        for name, figures in ranges.items()
    ]
    title = "Errors of the fit: predicted / measured - 1"
    headings = ("kernel", "rows of", "rows", "median", "90th percentile", "bias")
    return Rows(title=title, headings=headings, rows=rows, numbers=[False, False, *[True] * 4], labels=2)


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
