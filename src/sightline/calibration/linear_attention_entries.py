"""Fits of recurrent mixers as catalog entries."""

from pathlib import Path

from sightline.calibration.entries import Entry, device_of, existing, figures, provenance
from sightline.calibration.linear_attention import fit_gated_delta, read_infersim_gated_delta

SCAN_CHUNK = 256.0
"""Tokens of a chunk of Mamba-2's kernels (state-spaces/mamba)."""


def linear_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of linear attention and state spaces; ``generic`` takes those of the one device measured."""
    paths = [existing(data / "infersim" / f"gdn_{phase}_h20_4-16-128-32-128.csv") for phase in ("decode", "prefill")]
    result = fit_gated_delta(read_infersim_gated_delta(*paths), device_of("h20"))
    source = "alibaba/InferSim, bench_data of gated delta kernels on H20: 4 taps, 16 key and 32 value heads of 128"
    constants = dict(result.constants)
    scan = {**constants, "chunk_tokens": SCAN_CHUNK}
    h20 = {
        **provenance(source, "fitted", "linear"),
        "filters": ["decoding of 64 and more sequences; fewer waited for launches from Python"],
        "mixers": {
            "gated-delta": {"evidence": "calibrated", **figures(result), **constants},
            "state-space": {"evidence": "extrapolated", **scan},
        },
    }
    generic = {
        **provenance("the fit for h20, nobody else's tables being known", "datasheet", "linear"),
        "mixers": {
            "gated-delta": {"evidence": "datasheet", **constants},
            "state-space": {"evidence": "datasheet", **scan},
        },
    }
    return {"h20": h20, "generic": generic}
