"""Constants of bandwidth-bound kernels, class by class: the fits, the shipped entries, anybody's table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits.fitting import (
    Constants,
    FitResult,
    Range,
    error_statistics,
    fit_constants,
    share_of,
)
from sightline.calibration.manifest import Read, Stated, device_of, manifest
from sightline.calibration.parts.part import (
    Entry,
    PartFit,
    Points,
    between,
    constants_in,
    figures,
    fit_each,
    part_fit,
    provenance,
)
from sightline.calibration.samples import Array, Table, by_kernel, columns
from sightline.catalog import entry
from sightline.cost.elementwise import (
    ElementwiseConstants,
    bytes_per_cycle,
    elementwise_cost,
    load_elementwise,
    memory_share,
)
from sightline.cost.families import Evidence, family_of
from sightline.errors import InputError
from sightline.program import Elementwise
from sightline.quantities import significant
from sightline.scenario import Cluster, Device

if TYPE_CHECKING:
    import polars as pl

BYTES = 2.0
"""Of an element of the tensors that samples count."""
RANGES: Mapping[str, Range] = {
    "memory_fraction": Range(low=0.05, starts=(0.5,), high=0.97),
    "cache_gain": Range(low=0.0, starts=(0.5,), high=1.0),
    "kernel_latency_s": Range(low=1e-7, starts=(4e-6,), high=6e-5),
}
VECTOR_FRACTION = 0.25
"""Not told by tables of kernels bound by bytes; training's estimate."""
SAMPLE = 1500
"""Measurements a fit uses."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ElementwiseTable(Table):
    """Measured kernels, or several launched one after another."""

    tokens: Array
    width: Array
    """Elements of a row, which tell models and degrees of tensor parallelism apart."""
    tensors: Array
    """16-bit tensors that are moved."""
    distinct: Array
    """16-bit tensors among them that are not moved twice."""
    launches: Array
    launch_s: Array
    """What the host takes of the measured time to launch the kernel and to wait for it; 0 where it is not in."""

    @classmethod
    def of(cls, rows: "pl.DataFrame") -> Self:
        """The samples' columns; what a table does not say of launches from the host is 0."""
        import polars as pl

        stated = pl.col("launch_s").fill_null(0.0) if "launch_s" in rows.columns else pl.lit(0.0)
        return super(ElementwiseTable, cls).of(rows.with_columns(stated.alias("launch_s")))

    @property
    def traffic_bytes(self) -> Array:
        """Bytes that are read and written."""
        return BYTES * self.tensors * self.tokens * self.width

    @property
    def footprint_bytes(self) -> Array:
        """Bytes of distinct tensors."""
        return BYTES * self.distinct * self.tokens * self.width


def predicted_seconds(table: ElementwiseTable, device: Device, constants: ElementwiseConstants) -> Array:
    """Predicted time of every kernel of a table."""
    kernels = Elementwise(module="residual", part="copy", traffic_bytes=table.traffic_bytes, kernels=table.launches)
    cost = elementwise_cost(kernels, device, constants, footprint_bytes=table.footprint_bytes)
    return np.asarray(cost.time_s) + table.launch_s


def fit_elementwise(table: ElementwiseTable, device: Device, given: Mapping[str, float] | None = None) -> FitResult:
    """Return the constants of one class of kernels; whole widths are left out in turn where there are several.

    ``given`` holds constants that the table cannot tell.
    """
    used = table.where(_sample(table))
    known = {"vector_fraction": VECTOR_FRACTION, **(given or {})}
    ranges = {name: r for name, r in RANGES.items() if name not in known}

    def constants_of(fitted: Constants) -> ElementwiseConstants:
        return ElementwiseConstants(**{**known, **fitted})  # type: ignore[arg-type]

    def fitted_on(part: ElementwiseTable) -> dict[str, float]:
        return fit_constants(lambda x: predicted_seconds(part, device, constants_of(x)), part.seconds, ranges)

    fitted = fitted_on(used)
    residuals = {"fit": error_statistics(predicted_seconds(used, device, constants_of(fitted)), used.seconds)}
    widths = np.unique(used.width)
    if len(widths) > 1 and len(used) > 2 * len(widths):
        left_out = np.empty(len(used))
        for width in widths:
            out = used.width == width
            left_out[out] = predicted_seconds(used.where(out), device, constants_of(fitted_on(used.where(~out))))
        residuals["width left out"] = error_statistics(left_out, used.seconds)
    rows = {"table": len(table), "fitted": len(used)}
    return FitResult(constants={**known, **fitted}, rows=rows, residuals=residuals)


def _sample(table: ElementwiseTable) -> NDArray[np.bool_]:
    """A fixed selection of at most ``SAMPLE`` measurements."""
    keys = [f"{b:.0f}x{w:.0f}x{i}" for i, (b, w) in enumerate(zip(table.traffic_bytes, table.width, strict=True))]
    return np.asarray(share_of(keys) < SAMPLE / max(len(table), 1))


def elementwise_entries(stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of bandwidth-bound kernels by device family; ``generic`` lies between them."""
    entries = {name: _family(name, family, stated, read) for name, family in stated["families"].items()}
    mean = stated["scalar_mean"]
    scalar = scalar_between({name: entries[name] for name in mean})
    origin = f"scalar kernels: geometric mean of the fits for {', '.join(mean)}; vectorized kernels: estimated"
    generic = _entry(origin, "datasheet", vectorized=_completed({}, "datasheet", stated), scalar=scalar)
    entries["generic"] = _with_unit_bytes({**generic, "measured": "vectorized"}, device_of(stated["common"]))
    return entries


def scalar_between(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Geometric means of scalar kernels' constants by class, each as it would be on one common device."""
    stated = manifest("elementwise")
    device = device_of(stated["common"])

    def there(entry: Entry, kind: str) -> Entry:
        constants = constants_in(entry["kernels"]["scalar"][kind])
        own = ElementwiseConstants(**constants, unit_bytes=entry["unit_bytes"])
        return {**constants, "memory_fraction": float(memory_share(own, device))}

    return {
        kind: {"evidence": "datasheet", **between([there(entry, kind) for entry in entries.values()])}
        for kind in stated["estimates"]
    }


def _family(name: str, family: Stated, stated: Stated, read: Read) -> Entry:
    """One family's entry: the classes of each generation of kernels that it was measured with, estimates of the others."""
    device = device_of(name)
    scalar, vectorized = (_classes(family.get(g), device, stated, read) for g in ("scalar", "vectorized"))
    completed = _completed(vectorized, "extrapolated", stated)
    if "scalar" not in family:
        return _entry(family["source"], "fitted", vectorized=completed)
    scalar |= {kind: vectorized[kind] for kind in family.get("also_scalar", ())}
    for kind, other in stated["stand_ins"].items():
        scalar[kind] = {"evidence": "extrapolated", **constants_in(scalar[other])}
    scalar = _completed(scalar, "extrapolated", stated)
    return _with_unit_bytes(_entry(family["source"], "fitted", scalar=scalar, vectorized=completed), device)


def _classes(measured: Stated | None, device: Device, stated: Stated, read: Read) -> dict[str, Entry]:
    """The fit of every class that the tables hold; what they cannot tell is estimated."""
    import polars as pl

    if measured is None:
        return {}
    fitted: dict[str, Entry] = {}
    rows = pl.concat([read(tables) for tables in measured["tables"]], how="diagonal_relaxed")
    for kind, part in by_kernel(rows).items():
        fraction, latency_s = stated["estimates"][kind]
        given = {"memory_fraction": fraction, "cache_gain": 1.0} if "fractions" in measured else {}
        result = fit_elementwise(ElementwiseTable.of(part), device, given)
        latency = {"kernel_latency_s": latency_s} if "latencies" in measured else {}
        fitted[kind] = {"evidence": "calibrated", **figures(result), **result.constants, **latency}
    return fitted


def _completed(fitted: Mapping[str, Entry], evidence: Evidence, stated: Stated) -> dict[str, Entry]:
    """All classes: those that were fitted, and estimates of the others."""
    estimated = {
        kind: {
            "evidence": evidence,
            "memory_fraction": fraction,
            "cache_gain": 1.0,
            "vector_fraction": VECTOR_FRACTION,
            "kernel_latency_s": latency_s,
        }
        for kind, (fraction, latency_s) in stated["estimates"].items()
    }
    return {kind: dict(fitted.get(kind, estimate)) for kind, estimate in estimated.items()}


def _entry(source: str, evidence: str, **kernels: dict[str, Entry]) -> Entry:
    measured = "scalar" if "scalar" in kernels else "vectorized"
    return {**provenance(source, evidence, "elementwise"), "measured": measured, "kernels": kernels}


def _with_unit_bytes(entry: Entry, device: Device) -> Entry:
    """The entry with what the memory gave a compute unit per cycle, which kernels bound by instructions do not use."""
    kernels = entry["kernels"]
    rest = {name: value for name, value in entry.items() if name != "kernels"}
    return {**rest, "unit_bytes": significant(bytes_per_cycle(device), 4), "kernels": kernels}


def bound(rows: "pl.DataFrame", cluster: Cluster) -> Array:
    """Reading and writing the distinct tensors in L2."""
    c = columns(rows, "tokens", "width", "distinct")
    return np.asarray(BYTES * c["distinct"] * c["tokens"] * c["width"] / cluster.device.l2_bandwidth)


def fit(rows: "pl.DataFrame", cluster: Cluster, done: Callable[[], None]) -> PartFit:
    """The constants of every class of kernels in the rows; the other classes are the nearest family's."""
    generation = _generation(rows)
    shipped = entry("calibrations", f"{family_of(cluster.device, 'elementwise')}/elementwise")
    kernels = {name: _lent(classes) for name, classes in shipped["kernels"].items()}
    fitted: dict[str, Any] = dict(kernels.get(generation) or kernels[shipped["measured"]])

    def one(kind: str, part: "pl.DataFrame") -> tuple[FitResult, Points]:
        table = ElementwiseTable.of(part)
        result = fit_elementwise(table, cluster.device)
        return result, _points(kind, table, cluster, ElementwiseConstants(**result.constants))

    results, drawn = fit_each(rows, done, one)
    for kind, result in results.items():
        fitted[kind] = {"evidence": "calibrated", **figures(result), **result.constants}
    return part_fit({"measured": generation, "kernels": {**kernels, generation: fitted}}, results, drawn)


def points(rows: "pl.DataFrame", cluster: Cluster) -> list[Points]:
    """What the device's constants in the catalog predict."""
    family = family_of(cluster.device, "elementwise")
    shipped = load_elementwise(family, "scalar" if _generation(rows) == "scalar" else "vectorized")
    return [_points(kind, ElementwiseTable.of(part), cluster, shipped[kind]) for kind, part in by_kernel(rows).items()]


def _generation(rows: "pl.DataFrame") -> str:
    found: Sequence[str] = sorted(rows["generation"].unique().to_list())
    if len(found) > 1:
        raise InputError(
            "the tables mix vLLM's kernels of 2023 (Vidur, Frontier) with later ones; fit them one after the other"
        )
    return str(found[0])


def _lent(classes: Mapping[str, Any]) -> dict[str, Any]:
    """A family's classes for another: their constants alone."""
    names = ("memory_fraction", "cache_gain", "vector_fraction", "kernel_latency_s")
    return {kind: {"evidence": "extrapolated", **{name: c[name] for name in names}} for kind, c in classes.items()}


def _points(kind: str, table: ElementwiseTable, cluster: Cluster, constants: ElementwiseConstants) -> Points:
    predicted = predicted_seconds(table, cluster.device, constants)
    return Points(kernel=kind, size=table.traffic_bytes, unit="B", predicted=predicted, measured=table.seconds)
