"""The tables of measured operators that a data folder has, as the manifests name them, and what predicts their rows.

Every table is predicted twice: with the constants that were fitted to it, and with those of a device that was never
measured.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sightline.calibration.manifest import device_of, has_tables, manifest, samples
from sightline.calibration.parts.elementwise import ElementwiseTable
from sightline.calibration.parts.elementwise import predicted_seconds as elementwise_seconds
from sightline.calibration.parts.grouped import FITTED, TILES, grouped_table
from sightline.calibration.parts.grouped import predicted_seconds as grouped_seconds
from sightline.calibration.parts.leave_out import (
    attention_without,
    elementwise_without,
    grouped_without,
    matmul_without,
)
from sightline.calibration.parts.matmul import MatmulTable, possible, predicted_seconds
from sightline.calibration.parts.serving_attention import HOST, ServingAttentionTable
from sightline.calibration.parts.serving_entries import measured_families
from sightline.calibration.parts.serving_joint import Measured, beside_seconds
from sightline.calibration.samples import by_kernel
from sightline.catalog import entry
from sightline.cost.elementwise import load_elementwise
from sightline.cost.families import UNMEASURED
from sightline.cost.matmul.constants import load_matmul
from sightline.cost.matmul.grouped import load_grouped
from sightline.validation.operators.suite import Array, Compared, joined

PHASES: Mapping[str, str] = {"masked": "decode", "contiguous": "prefill"}
"""Phase of an engine that each layout of experts' products serves."""
ATTENTION: Mapping[str, str] = {
    "attention-prefill": "prefill_attention",
    "attention-decode": "decode_attention",
    "attention-mla-decode": "latent_decode_attention",
}
"""Calibration part by the beginning of the suites' names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A table of one kind of operator on one device family."""

    kind: str
    family: str
    source: str
    compare: Callable[[bool], Compared]
    """Reads the table and predicts it; with True as if the device had never been measured."""
    notes: tuple[str, ...] = ()
    """What had to be decided for this table."""

    @property
    def name(self) -> str:
        """The suite's name."""
        return f"{self.kind} {self.family}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """Products of one number format that a family was measured in."""

    data: Path
    family: str
    kernel: str
    tables: Mapping[str, Any]

    @property
    def spans_plane(self) -> bool:
        """Whether the table has shapes of its own, and not the layers of a few models alone."""
        return "relative" not in self.tables

    def read(self) -> MatmulTable:
        """The products that no cache can have made shorter than memory allows."""
        table = MatmulTable.of(by_kernel(samples(self.data, "matmul", self.tables))[self.kernel])
        return table.where(possible(table, device_of(self.family), self.kernel))

    def compare(self, unseen: bool) -> Compared:
        """The products with the family's constants, or with those of others."""
        table, own = self.read(), load_matmul(self.family, self.kernel)
        constants = matmul_without(self.family, self.kernel)[1] if unseen else own
        return matmul_compared(table, predicted_seconds(table, device_of(self.family), constants, self.kernel))


def matmul_products(data: Path) -> Iterator[Products]:
    """Yield every number format of every family whose tables are there."""
    for family, told in manifest("matmul")["families"].items():
        for tables in told["tables"]:
            for kernel in tables["kernels"] if has_tables(data, tables) else ():
                yield Products(data=data, family=family, kernel=kernel, tables=tables)


def matmul_compared(table: MatmulTable, predicted: Array, rows: Any = slice(None)) -> Compared:
    """Predicted and measured seconds of some products, or of all."""
    sizes = {name: getattr(table, name)[rows] for name in ("m", "n", "k")}
    return Compared(predicted=predicted[rows], measured=table.seconds[rows], sizes=sizes)


def grouped_readings(data: Path) -> Iterator[Reading]:
    """Yield both layouts of experts' products."""
    for family, told in manifest("grouped")["families"].items():
        for layout in TILES if has_tables(data, told["tables"]) else ():
            compare = partial(_grouped, data, family, layout, told["tables"])
            kind = f"grouped-matmul-{PHASES[layout]}"
            yield Reading(kind=kind, family=family, source=told["source"], compare=compare)


def _grouped(data: Path, family: str, layout: str, tables: Mapping[str, Any], unseen: bool) -> Compared:
    device = device_of(family)
    table = grouped_table(by_kernel(samples(data, "grouped", tables))[layout], device)
    others = tuple(manifest("grouped")["families"])
    own = load_grouped(family, FITTED, layout)[0]
    predicted = grouped_seconds(table, device, grouped_without(family, layout, others)[1] if unseen else own)
    sizes = {"rows": table.rows, "experts": table.active, "n": table.n, "k": table.k}
    return Compared(predicted=predicted, measured=np.asarray(table.seconds), sizes=sizes)


def attention_readings(data: Path) -> Iterator[Reading]:
    """Yield every serving engine's attention."""
    for kind, part in ATTENTION.items():
        for family, measured in measured_families(part).items():
            if has_tables(data, measured.tables):
                compare = partial(_attention, data, part, family, measured)
                notes = tuple(measured.filters)
                yield Reading(kind=kind, family=family, source=measured.source, compare=compare, notes=notes)


def _attention(data: Path, part: str, family: str, measured: Measured, unseen: bool) -> Compared:
    table = ServingAttentionTable.of(samples(data, part, measured.tables))
    constants, device = entry("calibrations", f"{family}/{part}")["constants"], device_of(family)
    outside: Array | float = 0.0
    if unseen:
        lender, lent = attention_without(family, part)
        constants = {**lent, HOST: constants.get(HOST, 0.0)}
        if lender == UNMEASURED:  # what relatives lend holds the kernels beside their attention
            outside = beside_seconds(table, device, measured.beside)
    sizes = {
        "batch": table.batch,
        "heads": table.heads,
        "kv": table.kv_heads,
        "queries": table.query_tokens,
        "context": table.context_tokens,
    }
    predicted = measured.kernel.predict(table, device, constants) + outside
    return Compared(predicted=predicted, measured=table.seconds, sizes=sizes)


def elementwise_readings(data: Path) -> Iterator[Reading]:
    """Yield bandwidth-bound kernels (norm, rotation, activation, embedding, ...)."""
    for family, suite in manifest("elementwise")["suites"].items():
        if has_tables(data, suite["tables"]):
            compare = partial(_elementwise, data, family, suite)
            yield Reading(kind="element-wise", family=family, source=suite["source"], compare=compare)


def _elementwise(data: Path, family: str, suite: Mapping[str, Any], unseen: bool) -> Compared:
    generation = suite["generation"]
    constants = elementwise_without(family, generation)[1] if unseen else load_elementwise(family, generation)
    parts = []
    for kind, rows in by_kernel(samples(data, "elementwise", suite["tables"])).items():
        if kind in constants:
            table = ElementwiseTable.of(rows)
            predicted = elementwise_seconds(table, device_of(family), constants[kind])
            sizes = {"bytes": table.traffic_bytes, "width": table.width}
            parts.append(Compared(predicted=predicted, measured=table.seconds, sizes=sizes))
    return joined(parts)
