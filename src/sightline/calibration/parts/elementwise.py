"""Constants of bandwidth-bound kernels, class by class: the fits, the shipped entries, anybody's table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sightline.calibration import fits
from sightline.calibration.manifest import Read, Stated, device_of, manifest
from sightline.calibration.parts.part import (
    Entry,
    Part,
    between,
    constants_in,
    figures,
    nearest_entry,
    provenance,
)
from sightline.cost.elementwise import (
    ElementwiseConstants,
    KernelGeneration,
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

BYTES = 2.0
"""Of an element of the tensors that samples count."""
VECTOR_FRACTION = 0.25
"""Not told by tables of kernels bound by bytes; training's estimate."""
SAMPLE = 1500
"""Measurements a fit uses."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ElementwiseTable(fits.Table):
    """Measured kernels, or several launched one after another."""

    tokens: fits.Array
    width: fits.Array
    """Elements of a row, which tell models and degrees of tensor parallelism apart."""
    tensors: fits.Array
    """16-bit tensors that are moved."""
    distinct: fits.Array
    """16-bit tensors among them that are not moved twice."""
    launches: fits.Array
    launch_s: fits.Array
    """What the host takes of the measured time to launch the kernel and to wait for it; 0 where it is not in."""
    generation: str = "vectorized"
    """How the kernels were written."""

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Self:
        """The samples' columns; what a table does not say of launches from the host is 0."""
        stated = pl.col("launch_s").fill_null(0.0) if "launch_s" in rows.columns else pl.lit(0.0)
        names = ("seconds", "tokens", "width", "tensors", "distinct", "launches", "launch_s")
        return cls(**fits.columns(rows.with_columns(launch_s=stated), *names), generation=rows["generation"][0])

    unit: ClassVar[str] = "B"

    @property
    def size(self) -> fits.Array:
        """Bytes that are read and written."""
        return BYTES * self.tensors * self.tokens * self.width

    @property
    def footprint_bytes(self) -> fits.Array:
        """Bytes of distinct tensors."""
        return BYTES * self.distinct * self.tokens * self.width


def predicted_seconds(table: ElementwiseTable, device: Device, constants: ElementwiseConstants) -> fits.Array:
    """Predicted time of every kernel of a table."""
    kernels = Elementwise(module="residual", part="copy", traffic_bytes=table.size, kernels=table.launches)
    cost = elementwise_cost(kernels, device, constants, footprint_bytes=table.footprint_bytes)
    return np.asarray(cost.time_s) + table.launch_s


def fit_elementwise(
    table: ElementwiseTable, device: Device, given: Mapping[str, float] | None = None
) -> fits.FitResult:
    """Return the constants of one class of kernels; whole widths are left out in turn where there are several.

    ``given`` holds constants that the table cannot tell.
    """
    used = table.where(_sample(table))
    known = {"vector_fraction": VECTOR_FRACTION, **(given or {})}

    def predict(part: ElementwiseTable, constants: Mapping[str, Any]) -> fits.Array:
        return predicted_seconds(part, device, ElementwiseConstants(**constants))

    fit_table = fits.within(fits.ranges_of(manifest("elementwise")["ranges"], known), known, predict)
    widths = len(np.unique(used.width))
    groups = {"width": used.width} if widths > 1 and len(used) > 2 * widths else {}
    result = fits.fit_and_judge(used, fit_table, predict, groups)
    return replace(result, rows={"table": len(table), **result.rows})


def _sample(table: ElementwiseTable) -> NDArray[np.bool_]:
    """A fixed selection of at most ``SAMPLE`` measurements."""
    keys = [f"{b:.0f}x{w:.0f}x{i}" for i, (b, w) in enumerate(zip(table.size, table.width, strict=True))]
    return np.asarray(fits.share_of(keys) < SAMPLE / max(len(table), 1))


def elementwise_entries(stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of bandwidth-bound kernels by device family; ``generic`` lies between them."""
    entries = {name: _family(name, family, stated, read) for name, family in stated["families"].items()}
    mean = stated["scalar_mean"]
    scalar = scalar_between({name: entries[name] for name in mean})
    origin = f"scalar kernels: geometric mean of the fits for {', '.join(mean)}; vectorized kernels: estimated"
    kernels = {"vectorized": _completed({}, "datasheet", stated), "scalar": scalar}
    entries["generic"] = _entry(origin, "datasheet", "vectorized", kernels, device_of(stated["common"]))
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
    """One family's entry: the classes of each measured generation of kernels, estimates of the others."""
    device = device_of(name)
    scalar, vectorized = (_classes(family.get(g), device, stated, read) for g in ("scalar", "vectorized"))
    completed = _completed(vectorized, "extrapolated", stated)
    if "scalar" not in family:
        return _entry(family["source"], "fitted", "vectorized", {"vectorized": completed})
    scalar |= {kind: vectorized[kind] for kind in family.get("also_scalar", ())}
    for kind, other in stated["stand_ins"].items():
        scalar[kind] = {"evidence": "extrapolated", **constants_in(scalar[other])}
    kernels = {"scalar": _completed(scalar, "extrapolated", stated), "vectorized": completed}
    return _entry(family["source"], "fitted", "scalar", kernels, device)


def _classes(measured: Stated | None, device: Device, stated: Stated, read: Read) -> dict[str, Entry]:
    """The fit of every class that the tables hold; what they cannot tell is estimated."""
    if measured is None:
        return {}
    fitted: dict[str, Entry] = {}
    rows = pl.concat([read(tables) for tables in measured["tables"]], how="diagonal_relaxed")
    for kind, part in fits.by_kernel(rows).items():
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


def _entry(
    source: str, evidence: str, measured: str, kernels: Mapping[str, Entry], device: Device | None = None
) -> Entry:
    """The entry of a family.

    Where scalar kernels were measured, with what the memory gave a compute unit per cycle there.

    Kernels bound by instructions do not use more of it.
    """
    unit_bytes = {} if device is None else {"unit_bytes": significant(bytes_per_cycle(device), 4)}
    return {**provenance(source, evidence, "elementwise"), "measured": measured, **unit_bytes, "kernels": kernels}


def _bound(rows: pl.DataFrame, cluster: Cluster) -> fits.Array:
    """Reading and writing the distinct tensors in L2."""
    c = fits.columns(rows, "tokens", "width", "distinct")
    return np.asarray(BYTES * c["distinct"] * c["tokens"] * c["width"] / cluster.device.l2_bandwidth)


def _fit_class(_: str, table: ElementwiseTable, cluster: Cluster) -> tuple[fits.FitResult, Entry]:
    result = fit_elementwise(table, cluster.device)
    return result, {"evidence": "calibrated", **figures(result), **result.constants}


def _content(fitted: Mapping[str, Entry], rows: pl.DataFrame, cluster: Cluster) -> Entry:
    """The classes that were fitted; the others are the nearest family's, their constants alone."""
    generation = _generation(rows)
    shipped = nearest_entry("elementwise", cluster)
    kernels = {
        name: {kind: {"evidence": "extrapolated", **constants_in(told)} for kind, told in classes.items()}
        for name, classes in shipped["kernels"].items()
    }
    lent = kernels.get(generation) or kernels[shipped["measured"]]
    return {"measured": generation, "kernels": {**kernels, generation: {**lent, **fitted}}}


def _predict(kind: str, table: ElementwiseTable, cluster: Cluster, stated: Mapping[str, Any] | None) -> fits.Array:
    if stated is None:
        generation: KernelGeneration = "scalar" if table.generation == "scalar" else "vectorized"
        constants = load_elementwise(family_of(cluster.device, "elementwise"), generation)[kind]
    else:
        constants = ElementwiseConstants(**constants_in(stated["kernels"][table.generation][kind]))
    return predicted_seconds(table, cluster.device, constants)


def _generation(rows: pl.DataFrame) -> str:
    found: Sequence[str] = sorted(rows["generation"].unique().to_list())
    if len(found) > 1:
        raise InputError(
            "the tables combine vLLM kernels of 2023 (Vidur, Frontier) with later ones; fit them separately"
        )
    return str(found[0])


ELEMENTWISE = Part(
    keys=("kernel", "tokens", "width", "tensors", "launches"),
    least=6,
    bound=_bound,
    table=lambda rows, _: ElementwiseTable.of(rows),
    fit_kernel=_fit_class,
    content=_content,
    predict=_predict,
)
