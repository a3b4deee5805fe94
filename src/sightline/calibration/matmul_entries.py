"""Fits of matmuls as catalog entries: constants with their source, rows, filters and residuals."""

from pathlib import Path

from sightline.calibration.entries import Entry, between, device_of, existing, figures, provenance
from sightline.calibration.matmul import HELD_OUT, fit_matmul
from sightline.calibration.matmul_tables import read_aiconfigurator_matmul
from sightline.catalog import entry

MATMUL_TABLES = {
    "a100-sxm": ("gemm_a100_sxm_trtllm-1.0.0.csv", "TensorRT-LLM 1.0.0"),
    "h100-sxm": ("gemm_h100_sxm_trtllm-1.2.0rc5.csv", "TensorRT-LLM 1.2.0rc5"),
}


def matmul_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of matmuls by device family, fitted to the tables under ``data``; ``generic`` lies between them."""
    entries: dict[str, Entry] = {}
    for family, (file, library) in MATMUL_TABLES.items():
        shipped = entry("calibrations", f"{family}/matmul")
        given = {key: shipped["kernels"]["16-bit"]["constants"][key] for key in ("tiles", "misaligned_slowdown")}
        table = read_aiconfigurator_matmul(existing(data / "aiconfigurator" / file))
        result = fit_matmul(table, device_of(family), given)
        source = f"ai-dynamo/aiconfigurator@095f58a, gemm table of {family} with {library}, bfloat16"
        entries[family] = {
            **provenance(source, "fitted", "matmul"),
            "filters": [
                "slower than one pass over its operands from device memory",
                f"a fixed {HELD_OUT:.0%} of the (n, k) families held out; residuals are theirs",
                "fit: rows above 512 only in multiples of 64; a fixed sample, two thirds of training's sizes",
            ],
            "sources": shipped["sources"],
            "evidences": shipped["evidences"],
            "kernels": {"16-bit": {**figures(result), "constants": dict(result.constants)}},
        }
    middle = between([e["kernels"]["16-bit"]["constants"] for e in entries.values()])
    entries["generic"] = {
        **provenance("geometric mean of the fits for a100-sxm and h100-sxm; tiles of a100-sxm", "datasheet", "matmul"),
        "kernels": {
            "16-bit": {"constants": {**middle, "tiles": entries["a100-sxm"]["kernels"]["16-bit"]["constants"]["tiles"]}}
        },
    }
    return entries
