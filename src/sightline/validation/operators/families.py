"""Suites of measured operators that a data folder has tables for, by device family, fitted or as if never measured."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits import by_kernel
from sightline.calibration.manifest import device_of, has_tables, manifest, samples
from sightline.calibration.parts import grouped, matmul, serving_attention
from sightline.calibration.parts.attention import AttentionTable
from sightline.calibration.parts.attention import predicted_seconds as fused_seconds
from sightline.calibration.parts.collective_entries import System, engine_tables, system_tables, systems
from sightline.calibration.parts.collectives import CollectiveTable, measured_node, predicted
from sightline.calibration.parts.elementwise import ElementwiseTable
from sightline.calibration.parts.elementwise import predicted_seconds as elementwise_seconds
from sightline.calibration.parts.grouped import predicted_seconds as grouped_seconds
from sightline.catalog import entry
from sightline.cost.attention_constants import load_attention
from sightline.cost.collectives.libraries import PCIE, CustomAllReduce, KindConstants, load_collectives, load_custom
from sightline.cost.elementwise import load_elementwise
from sightline.cost.families import SERVER_UNKNOWN, UNMEASURED, half_width_without, kin
from sightline.cost.grouped_matmul import load_grouped
from sightline.cost.matmul import MatmulConstants, load_matmul
from sightline.errors import InputError
from sightline.loading.clusters import read_device
from sightline.scenario import Cluster
from sightline.validation.cases import Split
from sightline.validation.operators import Array, Compared, Known, OperatorSuite, joined, never_fitted, predicted_twice
from sightline.validation.operators.left_out import distance_of, part_of

GRID_DECISIONS = (
    "Device time of one matmul. Rows that are faster than one read of the operands from device memory are left out.",
    "Split by (n, k), whole weight matrices: a quarter of them is held out of the fit of the constants.",
    (
        "The fitted part is predicted as shipped, with the residual surface if the format has one. The test part "
        "is predicted with a surface that has not seen it."
    ),
    (
        "The width of intervals comes from the errors of a quarter of the fitted matrices with a surface that has "
        "not seen them."
    ),
)
FORMULA_DECISIONS = (*GRID_DECISIONS[:2], "Predicted by the formula alone, without the residual surface.")
LAYER_DECISIONS = (
    "Linear layers of a few models. Rows that are faster than one read of the operands are left out.",
    (
        "All rows are used for fitting, because there are too few matrices to hold some out. The catalog entry "
        "has the errors with each left out in turn."
    ),
)
GOAL, FORMULA_GOAL = "median 3 %, p90 9 % fitted; median 5 % on test", "median 7 %"
Parts = Mapping[Split, Compared]


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """Products of one number format that a family was measured in."""

    data: Path
    family: str
    kernel: str
    tables: Mapping[str, Any]

    def read(self) -> matmul.MatmulTable:
        """The products that no cache can have made shorter than memory allows."""
        table = matmul.MatmulTable.of(by_kernel(samples(self.data, "matmul", self.tables))[self.kernel])
        return table.where(matmul.possible(table, device_of(self.family), self.kernel))

    def compare(self, known: Known) -> Compared:
        """The products with the family's constants, or with those of others."""
        table, own = self.read(), load_matmul(self.family, self.kernel)
        if known == "itself":
            constants = own
        else:
            _, constants = never_fitted.matmul_without(self.family, self.kernel, siblings=known == "siblings")
        return _compared(table, matmul.predicted_seconds(table, device_of(self.family), constants, self.kernel))


def matmul_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of every number format of every family whose tables are there."""
    for family, told in manifest("matmul")["families"].items():
        for tables in told["tables"]:
            for kernel in tables["kernels"] if has_tables(data, tables) else ():
                yield from _suites(Products(data=data, family=family, kernel=kernel, tables=tables))


def unmeasured(data: Path) -> Iterator[tuple[str, str, Callable[[], Compared]]]:
    """Yield name, source and comparison of the products on devices that no constants were fitted to."""
    for name, tables in manifest("matmul")["never_fitted"].items():
        if has_tables(data, tables):
            yield f"matmul-16-bit {name}", str(tables["source"]), partial(_compare_unmeasured, data, name, tables)


def _compare_unmeasured(data: Path, name: str, tables: Mapping[str, Any]) -> Compared:
    device = read_device(name)
    table = matmul.MatmulTable.of(samples(data, "matmul", tables))
    table = table.where(matmul.possible(table, device))
    return _compared(table, matmul.predicted_seconds(table, device, never_fitted.never_fitted_device(device)))


def _compared(table: matmul.MatmulTable, predicted: Array, rows: Any = slice(None)) -> Compared:
    """Predicted and measured seconds of some products, or of all."""
    sizes = {name: getattr(table, name)[rows] for name in ("m", "n", "k")}
    return Compared(predicted=predicted[rows], measured=table.seconds[rows], sizes=sizes)


def _suites(products: Products) -> Iterator[OperatorSuite]:
    """Yield the suite of one number format, and one of the formula alone where a surface corrects it."""
    kind, family, tables = f"matmul-{products.kernel}", products.family, products.tables
    layers = predicted_twice(f"{kind} {family}", str(tables["source"]), LAYER_DECISIONS, products.compare)
    layers = replace(layers, siblings=never_fitted.has_siblings(family, "matmul", products.kernel))
    if "relative" in tables:  # it has the layers of a few models, no shapes of its own
        yield layers
        return
    by_formula = partial(_compare_formula, products)
    corrected = load_matmul(family, products.kernel).surface is not None
    compare = partial(_compare_grid, products) if corrected else by_formula
    yield replace(layers, decisions=GRID_DECISIONS, compare=compare, goal=GOAL)
    if corrected:
        formula = replace(layers, name=f"{kind}-formula {family}", decisions=FORMULA_DECISIONS, goal=FORMULA_GOAL)
        yield replace(formula, compare=by_formula, unseen=None)


def _compare_formula(products: Products) -> Parts:
    table = products.read()
    plain, test = _formula(products, table), matmul.held_out(table)
    return {"fit": _compared(table, plain, ~test), "test": _compared(table, plain, test)}


def _formula(products: Products, table: matmul.MatmulTable) -> Array:
    constants = load_matmul(products.family, products.kernel).without_surface()
    return matmul.predicted_seconds(table, device_of(products.family), constants, products.kernel)


def _compare_grid(products: Products) -> Parts:
    table, constants = products.read(), load_matmul(products.family, products.kernel)
    plain, test = _formula(products, table), matmul.held_out(table)
    factor = np.where(
        test, _unseen_factor(table, plain, constants, ~test), constants.correction(table.m, table.n, table.k)
    )
    fitted, near = _compared(table, plain * factor, ~test), matmul.next_in_line(table)
    left_out = plain[near] * _unseen_factor(table, plain, constants, ~test & ~near)[near]
    unseen = np.log(left_out / table.seconds[near])
    return {"fit": replace(fitted, unseen=unseen), "test": _compared(table, plain * factor, test)}


def _unseen_factor(
    table: matmul.MatmulTable, plain: Array, constants: MatmulConstants, seen: NDArray[np.bool_]
) -> Array:
    """Return what a surface fitted to the ``seen`` rows alone corrects everywhere."""
    fitted = replace(constants, surface=matmul.surface_over(table, plain, seen))
    return np.asarray(fitted.correction(table.m, table.n, table.k))


GROUPED_DECISIONS = (
    (
        "DeepGEMM's grouped matmuls with fp8 blocks, up and down matrices of the experts of published models. "
        "Rows per expert are drawn within 30 % of the stated number."
    ),
    "All rows are used for fitting. The catalog entry has the errors with each model left out in turn.",
)
CHART_DECISIONS = (
    (
        "Bars of the published charts, self-attention of 16,384 tokens at a hidden size of 2,048, for the forward "
        "pass alone or both passes."
    ),
    "All rows are used for fitting. The catalog entry has the errors with every head dimension left out in turn.",
)
ENGINE_DECISIONS = (
    "Attention of serving engines, the prefills and decoding steps of the table, one layer repeated.",
    "All rows are used for fitting. The catalog entry has the errors with head shapes left out.",
)
ENGINE_GOAL = "median 3 %, p90 11 %"
ELEMENTWISE_DECISIONS = (
    "Every tensor counts once per read or write at 16 bits.",
    "All rows are used for fitting, class by class. The catalog entry has the errors with whole widths left out.",
)
PHASES: Mapping[str, str] = {"masked": "decode", "contiguous": "prefill"}
"""Phase of an engine that each layout of experts' products serves."""
ATTENTION: Mapping[str, str] = {
    "attention-prefill": "prefill_attention",
    "attention-decode": "decode_attention",
    "attention-mla-decode": "latent_decode_attention",
}
"""Calibration part by the beginning of the suites' names."""


def chart_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of fused attention as training calls it."""
    stated = manifest("attention")
    for family, told in stated["families"].items():
        if not has_tables(data, told["tables"]):
            continue
        for kernel, shipped in entry("calibrations", f"{family}/attention")["kernels"].items():
            if "rows" in shipped and kernel in stated["kernels"]:
                chart = stated["kernels"][kernel]["chart"]
                yield OperatorSuite(
                    name=f"attention-{kernel} {family}",
                    source=stated["source"],
                    decisions=CHART_DECISIONS,
                    compare=partial(_compare_chart, data, family, kernel, told["tables"], chart),
                )


def _compare_chart(
    data: Path, family: str, kernel: str, tables: Mapping[str, Any], chart: str
) -> Mapping[Split, Compared]:
    rows = by_kernel(samples(data, "attention", tables))
    if chart not in rows:
        return {}
    table = AttentionTable.of(rows[chart])
    predicted = fused_seconds(table, device_of(family), load_attention(family, kernel))
    sizes = {
        "tokens": table.query_tokens,
        "head": table.head_dim,
        "causal": table.causal.astype(float),
        "backward": table.backward.astype(float),
    }
    return {"fit": Compared(predicted=np.asarray(predicted), measured=table.seconds, sizes=sizes)}


def grouped_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of both layouts of experts' products."""
    for family, told in manifest("grouped")["families"].items():
        for layout in grouped.TILES if has_tables(data, told["tables"]) else ():
            compare = partial(_grouped, data, family, layout, told["tables"])
            name = f"grouped-matmul-{PHASES[layout]} {family}"
            yield predicted_twice(name, told["source"], GROUPED_DECISIONS, compare, siblings=True, others=False)


def _grouped(data: Path, family: str, layout: str, tables: Mapping[str, Any], known: Known) -> Compared:
    device = device_of(family)
    table = grouped.grouped_table(by_kernel(samples(data, "grouped", tables))[layout], device)
    constants, _ = load_grouped(family, grouped.FITTED, layout)
    if known != "itself":
        _, constants = never_fitted.grouped_without(family, layout)
    predicted = grouped_seconds(table, device, constants)
    sizes = {"rows": table.rows, "experts": table.active, "n": table.n, "k": table.k}
    return Compared(predicted=predicted, measured=np.asarray(table.seconds), sizes=sizes)


def attention_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of every serving engine's attention."""
    for kind, part in ATTENTION.items():
        for family, measured in serving_attention.measured_families(part).items():
            if has_tables(data, measured.tables):
                compare = partial(_attention, data, part, family, measured)
                decisions = (*ENGINE_DECISIONS, *measured.filters)
                suite = predicted_twice(f"{kind} {family}", measured.source, decisions, compare, ENGINE_GOAL)
                yield replace(suite, siblings=never_fitted.has_siblings(family, part), others=_has_others(part))


def _has_others(part: str) -> bool:
    """Whether a phase was measured on several architectures."""
    families = set(serving_attention.measured_families(part))
    return any(families - kin(family) for family in families)


def _attention(data: Path, part: str, family: str, measured: serving_attention.Measured, known: Known) -> Compared:
    table = serving_attention.ServingAttentionTable.of(samples(data, part, measured.tables))
    constants, device = entry("calibrations", f"{family}/{part}")["constants"], device_of(family)
    outside: Array | float = 0.0
    if known != "itself":
        lender, lent = never_fitted.attention_without(family, part, siblings=known == "siblings")
        constants = {**lent, serving_attention.HOST: constants.get(serving_attention.HOST, 0.0)}
        if lender == UNMEASURED:  # constants borrowed from relatives hold the kernels next to their attention
            outside = serving_attention.beside_seconds(table, device, measured.beside)
    sizes = {
        "batch": table.batch,
        "heads": table.heads,
        "kv": table.kv_heads,
        "queries": table.query_tokens,
        "context": table.context_tokens,
    }
    predicted = measured.kernel.predict(table, device, constants) + outside
    return Compared(predicted=predicted, measured=table.seconds, sizes=sizes)


def elementwise_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of bandwidth-bound kernels (norm, rotation, activation, embedding, ...)."""
    for family, suite in manifest("elementwise")["suites"].items():
        if has_tables(data, suite["tables"]):
            compare = partial(_elementwise, data, family, suite)
            name, source = f"element-wise {family}", suite["source"]
            siblings = _has_sibling_streams(family, suite["generation"])
            yield predicted_twice(name, source, ELEMENTWISE_DECISIONS, compare, siblings=siblings)


def _has_sibling_streams(family: str, generation: str) -> bool:
    """Whether another device of the architecture was measured with kernels of the generation."""
    kernels = [
        entry("calibrations", f"{r}/elementwise")["kernels"] for r in never_fitted.siblings_with(family, "elementwise")
    ]
    return any(generation in known for known in kernels)


def _elementwise(data: Path, family: str, suite: Mapping[str, Any], known: Known) -> Compared:
    generation = suite["generation"]
    constants = load_elementwise(family, generation)
    if known != "itself":
        _, constants = never_fitted.elementwise_without(family, generation, siblings=known == "siblings")
    parts = []
    for kind, rows in by_kernel(samples(data, "elementwise", suite["tables"])).items():
        if kind in constants:
            table = ElementwiseTable.of(rows)
            predicted = elementwise_seconds(table, device_of(family), constants[kind])
            sizes = {"bytes": table.size, "width": table.width}
            parts.append(Compared(predicted=predicted, measured=table.seconds, sizes=sizes))
    return joined(parts)


SMALLEST, LARGEST, MOST_RANKS = 2**10, 2**30, 8
"""Messages and ranks that the suites hold."""
COLLECTIVE_GOAL = "median 4 %, p90 12 %"
NCCL_DECISIONS = (
    (
        "Inside a node, 2 to 8 ranks, buffers as nccl-tests reports them from 1 KiB to 1 GiB. Each version of "
        "NCCL is a suite."
    ),
    (
        "All rows are used for fitting. The catalog entry has the errors with ranks, message ranges and every "
        "other size left out."
    ),
)
CUSTOM_DECISIONS = (
    (
        "All-reduce as the engine calls it inside CUDA graphs, for all measured releases, with its own kernels up "
        "to their limit and NCCL beyond, 2 to 8 ranks, 1 KiB to 1 GiB."
    ),
    "All rows are used for fitting. The catalog entry has the errors with ranks and message ranges left out.",
)
SERVER_DECISION = (
    "With PCIe, the sharing of link bandwidth depends on the server, not on the device. The longest all-reduce for each"
    " number of ranks gives it, as a cluster's `shares` may state it, and is left out of the errors. The suites with an"
    " unknown server do not use it."
)
SPACING_DECISION = (
    "Of messages that differ by less than 3 % one counts. Otherwise the point-to-point transfers of another library in"
    " even steps of 64 KiB would outweigh all other kinds on A100."
)
NCCL_SOURCE = "NCCL inside a node"
SPACING = 0.03
Unseen: TypeAlias = tuple[str, Callable[[], Compared], tuple[str, ...]]
"""Name, comparison and decisions of a suite of devices never measured."""


def collective_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites whose tables are in the data folder and whose constants are in the catalog."""
    for system in systems():
        stated = entry("calibrations", f"{system.family}/collectives")
        if is_measured(data, system):
            yield from _nccl_suites(data, system, stated)
        if system.aiconfigurator and has_tables(data, manifest("collectives")["kernels"]):
            for engine, releases in stated.get("custom", {}).items():
                yield OperatorSuite(
                    name=f"all-reduce-{engine} {system.family}",
                    source=stated["source"],
                    decisions=CUSTOM_DECISIONS,
                    compare=partial(_compare_custom, data, system, engine, tuple(map(str, releases))),
                )


def _nccl_suites(data: Path, system: System, stated: Mapping[str, Any]) -> Iterator[OperatorSuite]:
    """Yield a suite per version of NCCL, and one of the kinds that further tables add without naming theirs."""
    for version in stated["versions"]:
        yield OperatorSuite(
            name=f"nccl-{version} {system.family}",
            source=stated["source"],
            decisions=NCCL_DECISIONS,
            compare=partial(_compare_nccl, data, system, version),
            goal=COLLECTIVE_GOAL,
        )
    if system.aiconfigurator and system.tables:
        yield OperatorSuite(
            name=f"send-recv {system.family}",
            source=", ".join(system.tables),
            decisions=NCCL_DECISIONS,
            compare=partial(_compare_nccl, data, system, stated["default"], further=True),
        )


def is_measured(data: Path, system: System) -> bool:
    """Whether the data folder has what the system was measured with."""
    nccl = manifest("collectives")["nccl"]["files"] if system.aiconfigurator else []
    return has_tables(data, {"files": [*nccl, *system.tables]})


def _compare_nccl(data: Path, system: System, version: str, *, further: bool = False) -> Mapping[Split, Compared]:
    tables = system_tables(partial(samples, data, "collectives"), system).get(version, {})
    added = {"send_recv"} if system.aiconfigurator else set()
    kinds = load_collectives(system.family, version).kinds
    chosen = [table for kind, table in tables.items() if (kind in added) == further]
    return {"fit": part} if (part := compared(chosen, measured_node(system.interconnect), kinds)) else {}


def _compare_custom(data: Path, system: System, engine: str, releases: Sequence[str]) -> Mapping[Split, Compared]:
    tables = engine_tables(partial(samples, data, "collectives"), system)
    node, kinds = measured_node(system.interconnect), load_collectives(system.family).kinds
    parts = [
        compared([tables[engine, release]], node, kinds, load_custom(system.family, f"{engine} {release}"))
        for release in releases
        if (engine, release) in tables
    ]
    known = [part for part in parts if part is not None]
    return {"fit": joined(known)} if known else {}


def compared(
    tables: Iterable[CollectiveTable],
    node: Cluster,
    kinds: Mapping[str, KindConstants],
    custom: CustomAllReduce | None = None,
) -> Compared | None:
    """Return predicted and measured seconds of the tables' collectives inside a node; None where no kind is known."""
    wanted = [table.where(_is_wanted(table)) for table in tables if table.kind in kinds]
    parts = [
        Compared(
            predicted=predicted(table, node, kinds, custom=custom),
            measured=table.seconds,
            sizes={"ranks": table.ranks, "bytes": table.bytes},
        )
        for table in wanted
        if len(table)
    ]
    return joined(parts) if parts else None


def _is_wanted(table: CollectiveTable) -> NDArray[np.bool_]:
    inside = (table.ranks >= 2) & (table.ranks <= MOST_RANKS) & (table.ranks == table.ranks_per_node)
    return np.asarray(inside & (table.bytes >= SMALLEST) & (table.bytes <= LARGEST))


def unseen_collectives(data: Path, *, siblings: bool = False) -> Iterator[Unseen]:
    """Yield name, comparison and decisions of every system as if its devices had never been measured.

    Servers with PCIe come twice. Without decisions, nothing is known of the server. With ``siblings`` it is those whose
    links are of a generation that others were measured on, too.
    """
    for system in systems():
        if not is_measured(data, system) or (siblings and not never_fitted.has_same_links(system.family)):
            continue
        known, unknown = (
            partial(_left_out, data, system, server_known=told, siblings=siblings) for told in (True, False)
        )
        yield f"nccl {system.family}", known, (SERVER_DECISION, SPACING_DECISION)
        if measured_node(system.interconnect).intra_node.topology == PCIE:
            yield f"nccl {system.family}", unknown, ()


def _left_out(data: Path, system: System, *, server_known: bool, siblings: bool) -> Compared:
    """The newest version of NCCL, all kinds that both the table and the lender have."""
    tables = dict(
        system_tables(partial(samples, data, "collectives"), system)[
            entry("calibrations", f"{system.family}/collectives")["default"]
        ]
    )
    _, kinds = never_fitted.collectives_without(system.family, siblings=siblings)
    node = measured_node(system.interconnect)
    if server_known and node.intra_node.topology == PCIE:
        sums = tables["all_reduce"]
        shares, used = never_fitted.server_shares(sums, node, kinds)
        tables["all_reduce"] = sums.where(~used)
        kinds = {kind: replace(k, shares=shares) for kind, k in kinds.items()}
    part = compared([table.where(_apart(table)) for table in tables.values()], node, kinds)
    if part is None:
        raise InputError(f"no collective of {system.family} is in the table")
    return part


def _apart(table: CollectiveTable) -> NDArray[np.bool_]:
    """The rows with the smallest message of every step of ``SPACING``, for each number of ranks."""
    kept = np.zeros(len(table), dtype=bool)
    for ranks in np.unique(table.ranks):
        own = table.ranks == ranks
        sizes = np.unique(table.bytes[own])
        _, first = np.unique(np.floor(np.log(sizes) / np.log1p(SPACING)), return_index=True)
        kept |= own & np.isin(table.bytes, sizes[first])
    return kept


UNSEEN_GOAL = "median 20 %"
"""Of devices that are predicted as if they had never been measured."""
DECISION = (
    "The device is predicted as if nobody had measured it or another of its architecture (of collectives: of links of"
    " its generation): with constants of the most similar device, or of all other devices, fitted without their tables,"
    " and without a residual surface."
)
SIBLING_DECISION = (
    "The device is predicted as if nobody had measured it, but another of its architecture (of collectives: with links"
    " of its generation): with constants fitted without its table, and without a residual surface."
)
UNSEEN, SIBLING = "never fitted", "sibling fitted"


def operator_suites(data: Path | str | None) -> tuple[OperatorSuite, ...]:
    """Return the suites of operators; none without a data folder."""
    return () if data is None else (*_fitted_suites(Path(data)), *never_fitted_suites(Path(data)))


def _fitted_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of constants that were fitted, with the parts of their tables that were held out."""
    return chain(
        matmul_suites(data),
        grouped_suites(data),
        chart_suites(data),
        attention_suites(data),
        elementwise_suites(data),
        collective_suites(data),
    )


def never_fitted_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield a suite for every measured family and kind of operator, predicted without its own measurements."""
    for fitted in chain(
        matmul_suites(data),
        attention_suites(data),
        elementwise_suites(data),
        grouped_suites(data),
    ):
        if fitted.unseen is not None:
            if fitted.others:
                yield _unseen_suite(fitted.name, fitted.source, partial(fitted.unseen, "others"))
            if fitted.siblings:
                yield _unseen_suite(fitted.name, fitted.source, partial(fitted.unseen, "siblings"), siblings=True)
    for name, source, compare in unmeasured(data):
        yield _unseen_suite(name, source, compare)
    for siblings in (False, True):
        for name, compare, decisions in unseen_collectives(data, siblings=siblings):
            suite = _unseen_suite(name, NCCL_SOURCE, compare, *decisions, siblings=siblings)
            yield suite if decisions else _with_width(replace(suite, name=f"{suite.name}, {SERVER_UNKNOWN}", goal=""))


def _unseen_suite(
    name: str, source: str, compare: Callable[[], Compared], *decisions: str, siblings: bool = False
) -> OperatorSuite:
    return _with_width(
        OperatorSuite(
            name=f"{name} {SIBLING if siblings else UNSEEN}",
            source=source,
            decisions=(SIBLING_DECISION if siblings else DECISION, *decisions),
            compare=lambda: {"test": compare()},
            goal=UNSEEN_GOAL,
        )
    )


def _with_width(suite: OperatorSuite) -> OperatorSuite:
    """The suite with intervals as wide as the errors of the other devices left out."""
    width = half_width_without(part_of(suite.name), distance_of(suite.name), suite.name)
    return replace(suite, half_width=width)
