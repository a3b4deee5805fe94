"""The tables of measured operators that a data folder has, as the manifests name them, and predictions of their rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sightline.calibration.manifest import device_of, has_tables, manifest, samples
from sightline.calibration.parts.elementwise import ElementwiseTable
from sightline.calibration.parts.elementwise import predicted_seconds as elementwise_seconds
from sightline.calibration.parts.grouped import TILES, GroupedTable, grouped_table
from sightline.calibration.parts.matmul import MatmulTable, possible
from sightline.calibration.parts.serving_attention import ServingAttentionTable
from sightline.calibration.parts.serving_entries import measured_families
from sightline.calibration.parts.serving_joint import Measured
from sightline.calibration.samples import by_kernel
from sightline.cost.elementwise import ElementwiseConstants
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
class Products:
    """Products of one number format or layout that a family was measured in."""

    data: Path
    part: str
    family: str
    kernel: str
    stated: Mapping[str, Any]
    """What the manifest says of the tables."""
    tables: Mapping[str, Any]

    @property
    def source(self) -> str:
        """Where the tables come from."""
        return str(self.stated["source"])

    def matmuls(self) -> MatmulTable:
        """The products that no cache can have made shorter than memory allows."""
        table = MatmulTable.of(by_kernel(samples(self.data, self.part, self.tables))[self.kernel])
        return table.where(possible(table, device_of(self.family), self.kernel))

    def grouped(self) -> GroupedTable:
        """The experts' products of the layout."""
        rows = by_kernel(samples(self.data, self.part, self.tables))[self.kernel]
        return grouped_table(rows, device_of(self.family))


def matmul_products(data: Path) -> Iterator[Products]:
    """Yield every number format of every family whose tables are there."""
    for family, told in manifest("matmul")["families"].items():
        for tables in told["tables"]:
            if has_tables(data, tables):
                for kernel in tables["kernels"]:
                    yield Products(data=data, part="matmul", family=family, kernel=kernel, stated=tables, tables=tables)


def grouped_products(data: Path) -> Iterator[Products]:
    """Yield both layouts of every family whose tables are there."""
    for family, told in manifest("grouped")["families"].items():
        if has_tables(data, told["tables"]):
            for layout in TILES:
                yield Products(
                    data=data, part="grouped", family=family, kernel=layout, stated=told, tables=told["tables"]
                )


def attention_tables(data: Path) -> Iterator[tuple[str, str, str, Measured]]:
    """Yield name, part, family and kernel of every engine's attention whose table is there."""
    for phase, part in ATTENTION.items():
        for family, measured in measured_families(part).items():
            if has_tables(data, measured.tables):
                yield f"{phase} {family}", part, family, measured


def attention_compared(table: ServingAttentionTable, predicted: Array) -> Compared:
    """Predicted and measured seconds of attention."""
    sizes = {
        "batch": table.batch,
        "heads": table.heads,
        "kv": table.kv_heads,
        "queries": table.query_tokens,
        "context": table.context_tokens,
    }
    return Compared(predicted=predicted, measured=table.seconds, sizes=sizes)


def grouped_compared(table: GroupedTable, predicted: Array) -> Compared:
    """Predicted and measured seconds of experts' products."""
    sizes = {"rows": table.rows, "experts": table.active, "n": table.n, "k": table.k}
    return Compared(predicted=predicted, measured=np.asarray(table.seconds), sizes=sizes)


def matmul_compared(table: MatmulTable, predicted: Array, rows: Any = slice(None)) -> Compared:
    """Predicted and measured seconds of some products, or of all."""
    sizes = {name: getattr(table, name)[rows] for name in ("m", "n", "k")}
    return Compared(predicted=predicted[rows], measured=table.seconds[rows], sizes=sizes)


def elementwise_compared(
    data: Path, family: str, suite: Mapping[str, Any], constants: Mapping[str, ElementwiseConstants]
) -> Compared:
    """Predicted and measured seconds of a suite's kernels, of the classes that ``constants`` know."""
    parts = []
    for kind, rows in by_kernel(samples(data, "elementwise", suite["tables"])).items():
        if kind in constants:
            table = ElementwiseTable.of(rows)
            predicted = elementwise_seconds(table, device_of(family), constants[kind])
            sizes = {"bytes": table.traffic_bytes, "width": table.width}
            parts.append(Compared(predicted=predicted, measured=table.seconds, sizes=sizes))
    return joined(parts)
