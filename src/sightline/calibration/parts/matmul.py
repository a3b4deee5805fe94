"""Matmul constants fitted to a table of measured products, and a surface of what they leave unexplained."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sightline.calibration import fits
from sightline.calibration.error_figures import error_statistics
from sightline.calibration.manifest import Read, Stated, device_of, manifest
from sightline.calibration.parts.part import (
    Entry,
    Part,
    between,
    figures,
    nearest_entry,
    provenance,
)
from sightline.catalog import entry
from sightline.cost import families as architectures
from sightline.cost.clock import SustainedLaw, clock_hz, lanes, sustained_share, watts_per_tflops
from sightline.cost.families import family_of
from sightline.cost.matmul import MatmulConstants, at_clock, kept_weights, kind_of, load_matmul, matmul_cost
from sightline.cost.residual_surface import ResidualSurface
from sightline.errors import InputError
from sightline.loading.clusters import read_device
from sightline.program import Matmul
from sightline.program.formats import format_of
from sightline.quantities import significant
from sightline.scenario import Cluster, Device
from sightline.scenario.precision import MATMUL_FORMATS, MODEL_DTYPE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatmulTable(fits.Table):
    """Measured products of an ``m x k`` with a ``k x n`` matrix."""

    m: fits.Array
    n: fits.Array
    k: fits.Array
    weight_copies: fits.Array
    """Weight matrices that the benchmark multiplied by in turn (``raw_table.WEIGHT_COPIES``)."""

    @property
    def size(self) -> fits.Array:
        """FLOPs."""
        return 2 * self.m * self.n * self.k


HELD_OUT = 0.25
"""Share of the (n, k) families that no fit sees."""
SAMPLE = {"training": 1600, "other": 900}
"""Measurements a fit uses: mostly those of the sizes that training has."""
OF_MEMORY = ("memory_fraction", "memory_ramp_s", "latency_s")
TELLING_ROWS = 512
"""Rows from which products tell of the arithmetic; with fewer all but ``OF_MEMORY`` is the relative's."""
PER_FAMILY = 60
"""Measurements of one (n, k) family that a fit to a small table uses."""
KNOTS = (17, 12, 12)
"""Knots over m, n and k: about one an octave."""
DENSE_KNOTS = (22, 19, 18)
DENSE_STIFFNESS = fits.STIFFNESS / 2
DENSE_ROWS = 20_000
"""Measurements that carry more knots, bends that are less stiff, and a table of their own for rows beyond blocks."""
LAYER_KNOTS = (25, 6, 5)
FEW_FAMILIES = 40
"""(n, k) families below which a table holds the layers of a few models: many rows of few weight matrices."""
ENOUGH_ROWS = 300
"""Measurements that a surface needs."""


def training_sized(table: MatmulTable) -> NDArray[np.bool_]:
    """Shapes as training has them: at least 512 rows, wide operands, rows in whole blocks of 64."""
    return np.asarray((table.m >= 512) & (table.n >= 256) & (table.k >= 256) & (table.m % 64 == 0))


def predicted_seconds(
    table: MatmulTable, device: Device, constants: MatmulConstants, kernel: str = "16-bit"
) -> fits.Array:
    """Predicted time of every product of a table, with operands in the format ``kernel`` and results in 16 bits."""
    products = _products(table, device, kernel)
    return np.asarray(matmul_cost(products, device, constants, weight_copies=table.weight_copies).time_s)


def _products(table: MatmulTable, device: Device, kernel: str) -> Matmul:
    stored = format_of(kernel, _half(device), device)
    return table.operators(
        Matmul,
        "mlp",
        "matmul",
        dtype=stored.compute_dtype,
        element_bytes=stored.activation_bytes,
        weight_bytes=stored.weight_bytes,
        output_bytes=2,
    )


def _half(device: Device) -> str:
    return "bf16" if "bf16" in device.peak_flops else "fp16"


def possible(table: MatmulTable, device: Device, kernel: str = "16-bit") -> NDArray[np.bool_]:
    """Measurements no faster than the device's memory, without those of inputs that were still in L2."""
    x = _products(table, device, kernel)
    moved = x.bytes - kept_weights(x, device, table.weight_copies)
    return np.asarray(table.seconds >= moved / device.memory_bandwidth)


def held_out(table: MatmulTable) -> NDArray[np.bool_]:
    """Measurements of the (n, k) families that are kept for testing."""
    return fits.share_of(families(table)) < HELD_OUT


def next_in_line(table: MatmulTable) -> NDArray[np.bool_]:
    """A quarter of the other families: left out in their turn, they say how far a fit is off where it saw nothing."""
    share = fits.share_of(families(table))
    return (share >= HELD_OUT) & (share < HELD_OUT + (1 - HELD_OUT) / 4)


def fit_matmul(table: MatmulTable, device: Device, given: Mapping[str, Any], kernel: str = "16-bit") -> fits.FitResult:
    """Return a device's matmul constants from measured products in one format.

    ``given`` holds what the table cannot tell: the library's ``tiles``, ``misaligned_slowdown`` and whatever else is
    not to be fitted; given everything, constants are only judged. Products with odd row counts above 512 do not occur
    in training and are left out of the fit, not of the statistics.
    """
    kept = table.where(possible(table, device, kernel))
    test = held_out(kept)
    used = kept.where(~test & ((kept.m <= 512) | (kept.m % 64 == 0)))
    used = used.where(_sample(used))

    predict = _predictor(device, kernel)
    known = given if "shallow_k" in given else {**given, "shallow_s": None}
    ranges = fits.ranges_of(manifest("matmul")["ranges"][kernel], known)
    fitted = fits.fit_constants(lambda x: predict(used, {**x, **given}), used.seconds, ranges) if ranges else {}
    constants = {**fitted, **given}
    rows = {"table": len(table), "possible": len(kept), "fitted": len(used), "held_out": int(test.sum())}
    judged = kept.where(test)
    return fits.FitResult(
        constants=constants, rows=rows, residuals=residuals_by_range(judged, predict(judged, constants))
    )


def _predictor(device: Device, kernel: str) -> Callable[[MatmulTable, Mapping[str, Any]], fits.Array]:
    """What predicts a table by constants as an entry states them."""
    return lambda table, constants: predicted_seconds(table, device, MatmulConstants.from_mapping(constants), kernel)


def fit_small_matmul(
    table: MatmulTable, device: Device, relative: Mapping[str, Any], kernel: str = "16-bit"
) -> fits.FitResult:
    """Return a device's matmul constants from a table of few shapes: a relative's, moved as far as the table shows.

    A relative's constant counts as one measurement whose error, of the ordinary size, is its distance in the manifest's
    ``spreads`` (the maximum a posteriori). Every (n, k) family is held out of the fit that its residuals come from, in
    four parts.
    """
    kept = table.where(possible(table, device, kernel))
    part = np.floor(4 * fits.share_of(families(kept)))

    def fit(rows: MatmulTable) -> Mapping[str, Any]:
        return _moved(rows, device, relative, kernel) if len(rows) else relative

    unseen = fits.left_out(kept, part, fit, _predictor(device, kernel))
    rows = {"table": len(table), "possible": len(kept), "fitted": len(kept)}
    return fits.FitResult(constants=fit(kept), rows=rows, residuals=residuals_by_range(kept, unseen))


def _moved(table: MatmulTable, device: Device, relative: Mapping[str, Any], kernel: str) -> dict[str, Any]:
    spreads = manifest("matmul")["spreads"]
    told = spreads if table.m.max() >= TELLING_ROWS else OF_MEMORY
    names = [name for name in told if relative[name] > 0]
    used = table.where(_evenly(table))
    centre = np.array([relative[name] for name in names])
    weight = fits.ORDINARY_ERROR / np.array([spreads[name] for name in names])
    ranges = {
        name: fits.Range(
            low=0.2 * relative[name], starts=(0.99 * relative[name],), high=_most(name, 5 * relative[name])
        )
        for name in names
    }

    predict = _predictor(device, kernel)

    def with_priors(fitted: fits.Constants) -> fits.Array:
        prior = (np.array([fitted[name] for name in names]) / centre) ** weight
        return np.concatenate([predict(used, {**relative, **fitted}), prior])

    fitted = fits.fit_constants(with_priors, np.concatenate([used.seconds, np.ones(len(names))]), ranges)
    return {**relative, **fitted}


def _most(name: str, value: float) -> float:
    return min(value, 1.0) if name in {"peak_fraction", "memory_fraction", "throttled_share"} else value


def families(table: MatmulTable) -> list[str]:
    """The (n, k) family of every measurement: one weight matrix."""
    return table.named("n", "k")


def residuals_by_range(table: MatmulTable, predicted: fits.Array) -> dict[str, dict[str, float]]:
    """Error statistics of a table for the ranges of shapes that matter."""
    training = training_sized(table)
    large = table.size > 1e11
    ranges = {
        "all": table.m > 0,
        "m >= 16": table.m >= 16,
        "training": training,
        "training, above 0.1 TFLOP": training & large,
        "m 16 to 511": (table.m >= 16) & (table.m < 512),
        "m below 16": table.m < 16,
    }
    return {name: error_statistics(predicted[q], table.seconds[q]) for name, q in ranges.items() if q.any()}


def _sample(table: MatmulTable) -> NDArray[np.bool_]:
    """A fixed selection of ``SAMPLE`` measurements from either kind."""
    order = fits.share_of(table.named("m", "n", "k"))
    training = training_sized(table)
    chosen = np.zeros(len(table), dtype=bool)
    for mask, count in ((training, SAMPLE["training"]), (~training, SAMPLE["other"])):
        members = np.flatnonzero(mask)
        chosen[members[np.argsort(order[members], kind="stable")[:count]]] = True
    return chosen


def _evenly(table: MatmulTable) -> NDArray[np.bool_]:
    """A fixed selection of at most ``PER_FAMILY`` measurements of every (n, k) family, spread over the rows."""
    names = np.array(families(table))
    chosen = np.zeros(len(table), dtype=bool)
    for name in np.unique(names):
        members = np.flatnonzero(names == name)
        ordered = members[np.argsort(table.m[members], kind="stable")]
        logs = np.log(table.m[ordered])
        wanted = np.linspace(logs[0], logs[-1], PER_FAMILY)
        chosen[ordered[np.minimum(np.searchsorted(logs, wanted), len(ordered) - 1)]] = True
    return chosen


def has_enough(table: MatmulTable) -> bool:
    """Whether the table can carry a surface."""
    return len(table) >= ENOUGH_ROWS


def knots(table: MatmulTable) -> tuple[int, int, int]:
    """Knots over m, n and k that the table can carry."""
    if len(set(families(table))) < FEW_FAMILIES:
        return LAYER_KNOTS
    return DENSE_KNOTS if len(table) >= DENSE_ROWS else KNOTS


def surface_over(table: MatmulTable, predicted: fits.Array, seen: NDArray[np.bool_]) -> ResidualSurface:
    """The surface fitted to the ``seen`` rows of a table, its axes and kinds those of the whole table.

    Of a dense table rows beyond whole blocks have a surface of their own.
    """
    axes = tuple(
        fits.axis_over(sizes, count) for sizes, count in zip((table.m, table.n, table.k), knots(table), strict=True)
    )
    part = table.where(seen)
    sizes, logarithms = (part.m, part.n, part.k), np.log(part.seconds / predicted[seen])
    if len(table) < DENSE_ROWS:
        return fits.fit_surface(axes, sizes, logarithms)
    return fits.fit_surface(axes, sizes, logarithms, kind=kind_of(part.m), kinds=2, stiffness=DENSE_STIFFNESS)


def fit_matmul_surface(
    table: MatmulTable, device: Device, constants: MatmulConstants, kernel: str = "16-bit"
) -> tuple[ResidualSurface, dict[str, dict[str, float]]]:
    """Return the surface over ``constants`` fitted to the whole table, and its errors there and on families left out.

    The families left out are those that the constants' fit did not see; neither does the surface judged on them.
    """
    kept = table.where(possible(table, device, kernel))
    predicted = predicted_seconds(kept, device, constants.without_surface(), kernel)
    test = held_out(kept)

    def errors(surface: ResidualSurface, rows: NDArray[np.bool_]) -> dict[str, float]:
        part = kept.where(rows)
        factor = replace(constants, surface=surface).correction(part.m, part.n, part.k)
        return error_statistics(predicted[rows] * factor, part.seconds)

    surface, without_test = (surface_over(kept, predicted, seen) for seen in (kept.m > 0, ~test))
    small = kept.m <= 64
    residuals = {
        "in range": errors(surface, kept.m > 0),
        "in range, m up to 64": errors(surface, small),
        "families left out": errors(without_test, test),
        "families left out, m up to 64": errors(without_test, test & small),
    }
    return surface, residuals


REFERENCE = "nvidia"
"""Maker whose libraries the others' are compared with."""
HIGHEST = 0.97
"""Share above which products tell a clock over that of the datasheet, not the power limit."""


def fit_sustained(stated: Stated, without: Collection[str] = ()) -> Entry:
    """Return the constants of the rule by the manifest's ``best`` shares, leaving architectures out.

    A line through the logarithms for the reference maker's later devices; then what older silicon and other makers'
    libraries lack: on each device, and the geometric mean. A maker or process of which nothing is left keeps 1.
    """
    devices = {name: read_device(name) for name in stated["best"]}
    kept = {n: d for n, d in devices.items() if d.architecture not in without}
    share = {name: min(float(stated["best"][name]), HIGHEST) for name in kept}
    later = [n for n, d in kept.items() if _maker(d) == REFERENCE and not _is_old(d)]
    watts = np.log([float(watts_per_tflops(kept[n])) for n in later])
    slope, level = np.polyfit(watts, _lost([share[n] for n in later]), 1)
    scale, exponent = float(np.exp(level)), -float(slope)

    old = [n for n, d in kept.items() if _is_old(d)]
    needed = [np.log(watts_per_tflops(kept[n])) - (level - _lost([share[n]])[0]) / exponent for n in old]
    energy = float(np.exp(np.mean(needed))) if old else 1.0
    others = {n: d for n, d in kept.items() if _maker(d) in stated["makers"]}
    reached = {n: share[n] * (1.0 + scale * float(watts_per_tflops(d)) ** -exponent) for n, d in others.items()}
    makers = {m: [reached[n] for n, d in others.items() if _maker(d) == m] for m in stated["makers"]}
    return {
        "source": stated["source"],
        "scale": significant(scale),
        "exponent": significant(exponent),
        "process_energy": significant(energy),
        "makers": {REFERENCE: 1.0, **{maker: significant(_mean(shares)) for maker, shares in makers.items()}},
        "devices": {name: significant(of) for name, of in reached.items()},
    }


def _lost(shares: list[float]) -> fits.Array:
    values = np.array(shares)
    lost: fits.Array = np.log((1.0 - values) / values)
    return lost


def _mean(shares: list[float]) -> float:
    """The geometric mean; 1 of none."""
    return float(np.exp(np.mean(np.log(shares)))) if shares else 1.0


def _maker(device: Device) -> str:
    return str(architectures.of_device(device)["maker"])


def _is_old(device: Device) -> bool:
    return "process" in architectures.of_device(device)


GIVEN = ("tiles", "misaligned_slowdown", "misaligned_loads")
"""What a table of times cannot tell."""
VECTOR_ROWS = 4.0
"""Rows up to which TensorRT-LLM multiplies quantized weights on the vector units."""
WEIGHT_ONLY = ("w8a16", "w4a16")
"""Formats whose products are computed in 16 bits."""
LENT = ("fp8", "fp8-block", "w8a8", "w8a16", "w4a16")
NO_FASTER_THAN_MEMORY = "slower than one pass over its operands from device memory"


def matmul_entries(stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of matmuls by device family; ``generic`` lies between them."""
    families: Mapping[str, Stated] = stated["families"]
    measured: dict[str, dict[str, Entry]] = {name: {} for name in families}
    for moved in (False, True):  # a relative's constants are fitted before those that start from them
        for name, family in families.items():
            for table in family["tables"]:
                if ("relative" in table) == moved:
                    measured[name] |= _measured(table, device_of(name), measured, read)
    sustained = fit_sustained(stated["sustained"])
    law = SustainedLaw.from_mapping(sustained)
    entries = {
        name: {
            **provenance("each kernel names its own", "fitted", "matmul"),
            **_stated(family),
            "units": _units(device_of(name), law),
            "kernels": {**measured[name], **_lent(measured, name, family.get("lenders", ()))},
        }
        for name, family in families.items()
    }
    generic = _generic(measured, stated["generic_16_bit"])
    units = between([entries[name]["units"] for name in stated["generic_16_bit"]])
    entries["generic"] = {**generic, "units": units, "sustained": sustained}
    return entries


def _measured(table: Stated, device: Device, measured: Mapping[str, Mapping[str, Entry]], read: Read) -> Entry:
    """The formats of one table, each fitted to its own products."""
    rows, shapes = fits.by_kernel(read(table)), _shapes(table["shapes_of"])
    kernels: dict[str, Entry] = {}
    for kernel, printed in table["kernels"].items():
        products = MatmulTable.of(rows[kernel])
        if "relative" in table:
            relative = {**measured[table["relative"]]["16-bit"]["constants"], **shapes}
            source = f"{table['source']}; constants of {table['relative']} moved as far as the table shows"
            kernels[kernel] = {"source": source, **_fitted(fit_small_matmul, products, device, relative, kernel)}
        else:
            given = _given(table, shapes, kernels, kernel)
            fitted = _fitted(fit_matmul, products, device, given, kernel)
            kernels[kernel] = {"source": f"{table['source']}, {printed}", **fitted}
    return kernels


def _shapes(family: str) -> Entry:
    shipped = entry("calibrations", f"{family}/matmul")["kernels"]["16-bit"]["constants"]
    return {name: shipped[name] for name in GIVEN if name in shipped}


def _given(table: Stated, shapes: Entry, fitted: Mapping[str, Entry], kernel: str) -> Entry:
    """What is not fitted of a format."""
    if kernel == table.get("kept"):
        return dict(entry("calibrations", f"{table['shapes_of']}/matmul")["kernels"][kernel]["constants"])
    if kernel == "fp8":
        return {**shapes, "latency_s": fitted["16-bit"]["constants"]["latency_s"]}
    if kernel == "16-bit":
        return dict(shapes)
    return {**shapes, "vector_rows": VECTOR_ROWS, **(table.get("weight_only", {}) if kernel in WEIGHT_ONLY else {})}


def _fitted(
    fit: Callable[[MatmulTable, Device, Mapping[str, Any], str], fits.FitResult],
    table: MatmulTable,
    device: Device,
    given: Mapping[str, Any],
    kernel: str,
) -> Entry:
    """One format's part of an entry: constants, residuals, and the surface where the table is large enough for one.

    ``fit`` is `fit_matmul` where the table spans the plane, else `fit_small_matmul`, which moves a relative's
    constants.
    """
    result = fit(table, device, given, kernel)
    fitted = {**figures(result), "constants": dict(result.constants)}
    if not has_enough(table):
        return fitted
    surface, errors = fit_matmul_surface(table, device, MatmulConstants.from_mapping(result.constants), kernel)
    return {**fitted, "surface_residuals": errors, "surface": surface.to_mapping()}


def _stated(family: Stated) -> Entry:
    """Sources and filters that an entry states once."""
    grid = next((table for table in family["tables"] if "relative" not in table), None)
    if grid is None:
        return {"filters": [NO_FASTER_THAN_MEMORY]}
    shipped, kept = entry("calibrations", f"{grid['shapes_of']}/matmul"), grid.get("kept")
    return {
        "filters": [
            NO_FASTER_THAN_MEMORY,
            f"a fixed {HELD_OUT:.0%} of the (n, k) families held out; residuals are theirs, the surface left aside",
            "fit: rows above 512 only in multiples of 64; a fixed sample, two thirds of training's sizes",
            *([f"{kept}: constants as first fitted, because training's were fitted on them"] if kept else []),
        ],
        "sources": dict(shipped["sources"]),
        "evidences": dict(shipped["evidences"]),
    }


def _lent(measured: Mapping[str, Mapping[str, Entry]], name: str, lenders: Sequence[str]) -> dict[str, Entry]:
    """Formats that ``name`` was not measured in, with the constants of the first lender that was."""
    lent: dict[str, Entry] = {}
    for kernel in ("16-bit", *LENT):
        lender = next((other for other in lenders if kernel in measured[other]), None)
        if lender and kernel not in measured[name]:
            constants = measured[lender][kernel]["constants"]
            moved = constants_at(device_of(name), constants, _units(device_of(lender)))
            lent[kernel] = {"of": lender, "constants": moved}
    return lent


def constants_at(device: Device, constants: Mapping[str, Any], units: Mapping[str, float]) -> Entry:
    """The constants of an entry, measured on compute units of such clock and lanes, as they are on ``device``."""
    measured = MatmulConstants.from_mapping(constants)
    moved = at_clock(measured, device, clock_hz=units["clock_hz"], lanes=units["lanes"])
    return {
        name: significant(getattr(moved, name)) if isinstance(value, float) else value
        for name, value in constants.items()
    }


def _units(device: Device, law: SustainedLaw | None = None) -> dict[str, float]:
    """What tells times in cycles, work per cycle, and the power limit's share, from one device to another."""
    units = {"clock_hz": significant(clock_hz(device), 4), "lanes": round(float(lanes(device)))}
    share = None if law is None else sustained_share(device, law)
    return units if share is None else {**units, "sustained": significant(share)}


def _generic(measured: Mapping[str, Mapping[str, Entry]], sources_16_bit: Sequence[str]) -> Entry:
    """Geometric means over the families that were measured in a format."""
    kernels: dict[str, Entry] = {}
    for kernel in ("16-bit", *LENT):
        sources = sources_16_bit if kernel == "16-bit" else [n for n in measured if kernel in measured[n]]
        sets = [measured[name][kernel]["constants"] for name in sources]
        sets = [{name: x[name] for name in x if all(name in other for other in sets)} for x in sets]
        constants = {**between(sets), "tiles": sets[0]["tiles"]}
        kernels[kernel] = {"source": f"geometric mean of {' and '.join(sources)}", "constants": constants}
    return {**provenance("each kernel names its own", "datasheet", "matmul"), "kernels": kernels}


def _bound(rows: pl.DataFrame, cluster: Cluster) -> fits.Array:
    """The longer of arithmetic at the peak and of moving the operands from L2."""
    m, n, k = fits.columns(rows, "m", "n", "k").values()
    kernels = rows["kernel"].to_list()
    peak = np.array([_peak(kernel, cluster.device) for kernel in kernels])
    activation = np.array([MATMUL_FORMATS[kernel].activation_bytes for kernel in kernels])
    weight = np.array([MATMUL_FORMATS[kernel].weight_bytes for kernel in kernels])
    moved = activation * m * k + weight * k * n + 2 * m * n
    return np.asarray(np.maximum(2 * m * n * k / peak, moved / cluster.device.l2_bandwidth))


def _peak(kernel: str, device: Device) -> float:
    dtype = MATMUL_FORMATS[kernel].compute_dtype
    if dtype == MODEL_DTYPE:
        dtype = "bf16" if "bf16" in device.peak_flops else "fp16"
    if dtype not in device.peak_flops:
        raise InputError(
            f"{device.name} has no {dtype} peak for {kernel} matmuls; allowed: {', '.join(device.peak_flops)}"
        )
    return float(device.peak_flops[dtype])


def _fit_kernel(kernel: str, table: MatmulTable, cluster: Cluster) -> tuple[fits.FitResult, Entry]:
    """Constants of their own and a surface from a table over the whole plane; else the nearest family's, moved."""
    lent: Mapping[str, Entry] = nearest_entry("matmul", cluster)["kernels"]
    nearest = next(name for name in (kernel, *MATMUL_FORMATS[kernel].nearest, "16-bit") if name in lent)
    relative = lent[nearest]["constants"]
    if has_enough(table) and kernel in manifest("matmul")["ranges"]:
        given = {name: relative[name] for name in GIVEN if name in relative}
        given |= {"latency_s": relative["latency_s"]} if kernel == "fp8" else {}
        given |= {"vector_rows": VECTOR_ROWS} if kernel.startswith("w") else {}
        found = _fitted(fit_matmul, table, cluster.device, given, kernel)
    else:
        found = _fitted(fit_small_matmul, table, cluster.device, relative, kernel)
    return fits.FitResult(constants=found["constants"], rows=found["rows"], residuals=_residuals(found)), found


def _content(fitted: Mapping[str, Entry], _: pl.DataFrame, cluster: Cluster) -> Entry:
    """The number formats that were fitted; 16-bit ones that are missing are the nearest family's."""
    family = family_of(cluster.device, "matmul")
    lent = {"of": family, "constants": entry("calibrations", f"{family}/matmul")["kernels"]["16-bit"]["constants"]}
    return {"kernels": {**fitted, **({} if "16-bit" in fitted else {"16-bit": lent})}}


def _constants(kernel: Entry) -> MatmulConstants:
    constants = MatmulConstants.from_mapping(kernel["constants"])
    if "surface" not in kernel:
        return constants
    return replace(constants, surface=ResidualSurface.from_mapping(kernel["surface"]))


def _residuals(kernel: Entry) -> dict[str, Mapping[str, float]]:
    """Errors of the formula on families left out, and with the surface where there is one."""
    with_surface = {f"with the surface, {name}": r for name, r in kernel.get("surface_residuals", {}).items()}
    return {**{f"left out, {name}": r for name, r in kernel["residuals"].items()}, **with_surface}


def _predict(kernel: str, table: MatmulTable, cluster: Cluster, stated: Mapping[str, Any] | None) -> fits.Array:
    family = family_of(cluster.device, "matmul")
    constants = load_matmul(family, kernel) if stated is None else _constants(stated["kernels"][kernel])
    return predicted_seconds(table, cluster.device, constants, kernel)


MATMUL = Part(
    keys=("kernel", "m", "n", "k"),
    least=24,
    bound=_bound,
    table=lambda rows, _: MatmulTable.of(rows),
    fit_kernel=_fit_kernel,
    content=_content,
    predict=_predict,
)
