"""Suites of measured attention by kernel and device family."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from sightline.calibration.attention import predicted_seconds
from sightline.calibration.attention_entries import IMPLEMENTATIONS
from sightline.calibration.attention_kernels import DECODE, LATENT, PREFILL, Measured
from sightline.calibration.attention_tables import read_flash_attention
from sightline.calibration.entries import DEVICES, device_of
from sightline.catalog import entry, names
from sightline.cost.attention.constants import load_attention
from sightline.errors import InputError
from sightline.validation.operator_suite import Compared, OperatorSuite
from sightline.validation.suite import Split

CHARTS = "flash_attention_tflops.csv"
CHART_DECISIONS = (
    "Bars of the published charts, self-attention of 16,384 tokens at a hidden size of 2,048; forward alone, or both passes.",
    "All of them are fitted on. The catalog's entry holds the errors of leaving every head dimension out in turn.",
)


ENGINE_DECISIONS = (
    "Attention of serving engines, prefills and decoding steps as the table has them, one layer repeated.",
    "All of them are fitted on. The catalog's entry holds the errors of leaving head shapes out.",
)
ENGINE_GOAL = "median 3 %, p90 11 %"
FOLDERS = ("aiconfigurator", "infersim", "frontier", "llmservingsim")
"""Where the tables of serving engines lie."""
PHASES: Mapping[str, tuple[str, Mapping[str, Measured]]] = {
    "attention-prefill": ("prefill_attention", PREFILL),
    "attention-decode": ("decode_attention", DECODE),
    "attention-mla-decode": ("latent_decode_attention", LATENT),
}
"""Calibration part and measured families by the beginning of the suites' names."""


def attention_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites whose tables are in the data folder and whose constants are in the catalog."""
    yield from _charts(data)
    if not any((data / folder).is_dir() for folder in FOLDERS):
        return
    for phase, (part, families) in PHASES.items():
        for family, measured in families.items():
            if f"{family}/{part}" in names("calibrations"):
                yield OperatorSuite(
                    name=f"{phase} {family}",
                    source=measured.source,
                    decisions=(*ENGINE_DECISIONS, *measured.filters),
                    compare=partial(_compare_engine, data, family, part, measured),
                    goal=ENGINE_GOAL,
                )


def _compare_engine(data: Path, family: str, part: str, measured: Measured) -> Mapping[Split, Compared]:
    try:
        table = measured.read(data)
    except (InputError, FileNotFoundError):  # the folder lacks the table
        return {}
    constants = entry("calibrations", f"{family}/{part}")["constants"]
    predicted = measured.kernel.predict(table, device_of(family), constants)
    sizes = {
        "batch": table.batch,
        "heads": table.heads,
        "kv": table.kv_heads,
        "queries": table.query_tokens,
        "context": table.context_tokens,
    }
    return {"fit": Compared(predicted=predicted, measured=table.seconds, sizes=sizes)}


def _charts(data: Path) -> Iterator[OperatorSuite]:
    for family in DEVICES:
        if not (data / CHARTS).is_file() or f"{family}/attention" not in names("calibrations"):
            continue
        for kernel, stated in entry("calibrations", f"{family}/attention")["kernels"].items():
            if "rows" in stated and kernel in IMPLEMENTATIONS:
                yield OperatorSuite(
                    name=f"attention-{kernel} {family}",
                    source="Dao-AILab/flash-attention@0251105, bar labels of the published charts",
                    decisions=CHART_DECISIONS,
                    compare=partial(_compare_charts, data / CHARTS, family, kernel),
                )


def _compare_charts(path: Path, family: str, kernel: str) -> Mapping[Split, Compared]:
    table = read_flash_attention(path, family.split("-", maxsplit=1)[0].upper(), IMPLEMENTATIONS[kernel])
    if not len(table):
        return {}
    predicted = predicted_seconds(table, device_of(family), load_attention(family, kernel))
    sizes = {
        "tokens": table.query_tokens,
        "head": table.head_dim,
        "causal": table.causal.astype(float),
        "backward": table.backward.astype(float),
    }
    return {"fit": Compared(predicted=np.asarray(predicted), measured=table.seconds, sizes=sizes)}
