"""Fits of sparse attention as catalog entries."""

from pathlib import Path

from sightline.calibration.entries import Entry, device_of, existing, figures, provenance
from sightline.calibration.sparse_attention import fit_sparse, read_infersim_sparse


def sparse_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of sparse attention; ``generic`` takes that of the one device measured."""
    folder = existing(data / "infersim" / "dsa_decode_h800_logits-64-128.csv").parent
    result = fit_sparse(read_infersim_sparse(folder, "h800"), device_of("h800-sxm"))
    source = "alibaba/InferSim, bench_data of DeepSeek V3.2's indexer and sparse attention on H800, prefill and decode"
    constants = dict(result.constants)
    return {
        "h800-sxm": {**provenance(source, "fitted", "sparse"), **figures(result), "constants": constants},
        "generic": {
            **provenance("the fit for h800-sxm, nobody else's tables being known", "datasheet", "sparse"),
            "constants": constants,
        },
    }
