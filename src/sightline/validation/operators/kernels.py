"""Suites of grouped matmuls, attention and bandwidth-bound kernels, whose tables the manifests name."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sightline.calibration.fits import by_kernel
from sightline.calibration.manifest import device_of, has_tables, manifest, samples
from sightline.calibration.parts.elementwise import ElementwiseTable
from sightline.calibration.parts.elementwise import predicted_seconds as elementwise_seconds
from sightline.calibration.parts.fused_attention import AttentionTable
from sightline.calibration.parts.fused_attention import predicted_seconds as fused_seconds
from sightline.calibration.parts.grouped import FITTED, TILES, grouped_table
from sightline.calibration.parts.grouped import predicted_seconds as grouped_seconds
from sightline.calibration.parts.serving_attention import HOST, ServingAttentionTable
from sightline.calibration.parts.serving_entries import measured_families
from sightline.calibration.parts.serving_joint import Measured, beside_seconds
from sightline.catalog import entry
from sightline.cost.architectures import kin
from sightline.cost.attention.constants import load_attention
from sightline.cost.elementwise import load_elementwise
from sightline.cost.families import UNMEASURED
from sightline.cost.matmul.grouped import load_grouped
from sightline.validation.operators.never_fitted import (
    attention_without,
    elementwise_without,
    grouped_without,
    has_siblings,
    siblings_with,
)
from sightline.validation.operators.suite import Array, Compared, Known, OperatorSuite, joined, predicted_twice
from sightline.validation.suite import Split

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
        for layout in TILES if has_tables(data, told["tables"]) else ():
            compare = partial(_grouped, data, family, layout, told["tables"])
            name = f"grouped-matmul-{PHASES[layout]} {family}"
            yield predicted_twice(name, told["source"], GROUPED_DECISIONS, compare, siblings=True, others=False)


def _grouped(data: Path, family: str, layout: str, tables: Mapping[str, Any], known: Known) -> Compared:
    device = device_of(family)
    table = grouped_table(by_kernel(samples(data, "grouped", tables))[layout], device)
    constants, _ = load_grouped(family, FITTED, layout)
    if known != "itself":
        _, constants = grouped_without(family, layout)
    predicted = grouped_seconds(table, device, constants)
    sizes = {"rows": table.rows, "experts": table.active, "n": table.n, "k": table.k}
    return Compared(predicted=predicted, measured=np.asarray(table.seconds), sizes=sizes)


def attention_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of every serving engine's attention."""
    for kind, part in ATTENTION.items():
        for family, measured in measured_families(part).items():
            if has_tables(data, measured.tables):
                compare = partial(_attention, data, part, family, measured)
                decisions = (*ENGINE_DECISIONS, *measured.filters)
                suite = predicted_twice(f"{kind} {family}", measured.source, decisions, compare, ENGINE_GOAL)
                yield replace(suite, siblings=has_siblings(family, part), others=_has_others(part))


def _has_others(part: str) -> bool:
    """Whether a phase was measured on several architectures."""
    families = set(measured_families(part))
    return any(families - kin(family) for family in families)


def _attention(data: Path, part: str, family: str, measured: Measured, known: Known) -> Compared:
    table = ServingAttentionTable.of(samples(data, part, measured.tables))
    constants, device = entry("calibrations", f"{family}/{part}")["constants"], device_of(family)
    outside: Array | float = 0.0
    if known != "itself":
        lender, lent = attention_without(family, part, siblings=known == "siblings")
        constants = {**lent, HOST: constants.get(HOST, 0.0)}
        if lender == UNMEASURED:  # constants borrowed from relatives hold the kernels next to their attention
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


def elementwise_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of bandwidth-bound kernels (norm, rotation, activation, embedding, ...)."""
    for family, suite in manifest("elementwise")["suites"].items():
        if has_tables(data, suite["tables"]):
            compare = partial(_elementwise, data, family, suite)
            name, told = f"element-wise {family}", suite["source"]
            siblings = _has_sibling_streams(family, suite["generation"])
            yield predicted_twice(name, told, ELEMENTWISE_DECISIONS, compare, siblings=siblings)


def _has_sibling_streams(family: str, generation: str) -> bool:
    """Whether another device of the architecture was measured with kernels of the generation."""
    kernels = [entry("calibrations", f"{r}/elementwise")["kernels"] for r in siblings_with(family, "elementwise")]
    return any(generation in known for known in kernels)


def _elementwise(data: Path, family: str, suite: Mapping[str, Any], known: Known) -> Compared:
    generation = suite["generation"]
    constants = load_elementwise(family, generation)
    if known != "itself":
        _, constants = elementwise_without(family, generation, siblings=known == "siblings")
    parts = []
    for kind, rows in by_kernel(samples(data, "elementwise", suite["tables"])).items():
        if kind in constants:
            table = ElementwiseTable.of(rows)
            predicted = elementwise_seconds(table, device_of(family), constants[kind])
            sizes = {"bytes": table.size, "width": table.width}
            parts.append(Compared(predicted=predicted, measured=table.seconds, sizes=sizes))
    return joined(parts)
