"""Fits of bandwidth-bound kernels as catalog entries."""

from collections.abc import Mapping
from pathlib import Path

from sightline.calibration.elementwise import VECTOR_FRACTION, fit_elementwise
from sightline.calibration.elementwise_tables import (
    Tables,
    joined,
    read_llmcompass,
    read_llmservingsim_dense,
    read_llmservingsim_layers,
    read_llmservingsim_sampler,
    read_vidur_elementwise,
)
from sightline.calibration.entries import Entry, between, device_of, existing, figures, provenance
from sightline.cost.elementwise import ElementwiseConstants, bytes_per_cycle, memory_share
from sightline.profile import Evidence
from sightline.quantities import significant
from sightline.scenario import Device

VIDUR = {"a100-sxm": "a100", "h100-sxm": "h100", "a40": "a40"}
LLAMA_8B = {"hidden": 4096.0, "rotated": 5120.0, "width": 14336.0}
VOCABULARY = 128256.0
ALONE: Mapping[str, tuple[float, float]] = {
    "norm": (0.9, 2.5e-6),
    "rope": (0.8, 2.5e-6),
    "activation": (0.9, 2.5e-6),
    "residual": (0.9, 2e-6),
    "copy": (0.9, 2e-6),
    "embedding": (0.8, 2.5e-6),
    "softmax": (0.5, 4e-6),
    "cache write": (0.5, 2.5e-6),
    "sampling": (0.9, 6e-6),
    "conv": (0.5, 5e-6),
}
"""Memory fraction and latency of vectorized kernels that a family's tables lack: between PyTorch's on A100, RTX 3090 and
vLLM's on RTX 4090 (0.86 to 0.97), latencies of H800 and RTX 4090; softmax of A100, sampling of RTX 4090, conv of H20; the
others estimated."""
COMMON = "a100-sxm"
"""Family of the device that means of scalar kernels are stated for."""
STAND_INS = {"copy": "residual", "cache write": "rope"}
"""Classes of scalar kernels priced as another where the tables lack them: streams, and scattered small writes."""


def elementwise_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of bandwidth-bound kernels by device family; ``generic`` lies between them."""
    entries = {
        **{family: _vidur(data, family, name) for family, name in VIDUR.items()},
        "a800-sxm": _frontier_a800(data),
        "h800-sxm": _frontier_h800(data),
        "rtx-4090": _rtx_4090(data),
        "rtx-3090": _rtx_3090(data),
        "mi210": _mi210(data),
    }
    scalar = scalar_between({family: entries[family] for family in VIDUR})
    origin = f"scalar kernels: geometric mean of the fits for {', '.join(VIDUR)}; vectorized kernels: estimated"
    generic = _entry(origin, "datasheet", vectorized=_completed({}, "datasheet"), scalar=scalar)
    entries["generic"] = _with_unit_bytes({**generic, "measured": "vectorized"}, device_of(COMMON))
    return entries


def scalar_between(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Geometric means of scalar kernels' constants by class, each as it would be on the device of ``COMMON``."""
    device = device_of(COMMON)

    def there(entry: Entry, kind: str) -> Entry:
        constants = _constants(entry["kernels"]["scalar"][kind])
        own = ElementwiseConstants(**constants, unit_bytes=entry["unit_bytes"])
        return {**constants, "memory_fraction": float(memory_share(own, device))}

    return {
        kind: {"evidence": "datasheet", **between([there(entry, kind) for entry in entries.values()])} for kind in ALONE
    }


def _with_unit_bytes(entry: Entry, device: Device) -> Entry:
    """The entry with what the memory gave a compute unit per cycle, which kernels bound by instructions do not use."""
    kernels = entry["kernels"]
    rest = {name: value for name, value in entry.items() if name != "kernels"}
    return {**rest, "unit_bytes": significant(bytes_per_cycle(device), 4), "kernels": kernels}


def _vidur(data: Path, family: str, name: str) -> Entry:
    paths = sorted((data / "vidur").glob(f"{name}_*_mlp.csv")) or [existing(data / "vidur" / f"{name}_mlp.csv")]
    scalar = _fits(joined(read_vidur_elementwise(path) for path in paths), family)
    source = f"microsoft/vidur@7d47513, profiles of {len(paths)} models on {name}: vLLM's kernels of 2023, 16 bits"
    measured: dict[str, Entry] = {}
    if family == "a100-sxm":
        table = read_llmcompass(existing(data / "llmcompass_measured_ops.csv"), "A100")
        measured = {kind: {**fit, "kernel_latency_s": ALONE[kind][1]} for kind, fit in _fits(table, family).items()}
        scalar["softmax"] = measured["softmax"]
        source += (
            "; softmax, vectorized kernels: PyTorch's in PrincetonUniversity/LLMCompass@2e015fd, without their launches"
        )
    fitted = _entry(source, "fitted", scalar=_scalar(scalar), vectorized=_completed(measured, "extrapolated"))
    return _with_unit_bytes(fitted, device_of(family))


def _frontier_a800(data: Path) -> Entry:
    table = read_vidur_elementwise(existing(data / "frontier" / "a800_meta-llama_Llama-2-7b-hf_mlp.csv"))
    fitted = _entry(
        "NetX-lab/Frontier@a4b22df, profile of Llama-2-7B on A800: vLLM's kernels of 2023, 16 bits",
        "fitted",
        scalar=_scalar(_fits(table, "a800-sxm")),
        vectorized=_completed({}, "extrapolated"),
    )
    return _with_unit_bytes(fitted, device_of("a800-sxm"))


def _frontier_h800(data: Path) -> Entry:
    """At most 128 tokens, which tell latencies alone; the embedding's copy from the host is left out."""
    file = "h800_llama2_7b_dense_example_linear_op_kernel_only.csv"
    table = read_vidur_elementwise(existing(data / "frontier" / file))
    table.pop("embedding", None)
    given = {kind: {"memory_fraction": ALONE[kind][0], "cache_gain": 1.0} for kind in table}
    return _entry(
        "NetX-lab/Frontier@a4b22df, profile of Llama-2-7B on H800, kernels only, 1 to 128 tokens; fractions estimated",
        "fitted",
        vectorized=_completed(_fits(table, "h800-sxm", given), "extrapolated"),
    )


def _rtx_4090(data: Path) -> Entry:
    stem = "perf_RTX4090_meta-llama_Llama-3.1-8B_bf16_tp1"
    dense = read_llmservingsim_dense(existing(data / "llmservingsim" / f"{stem}_dense.csv"), LLAMA_8B)
    sampler = read_llmservingsim_sampler(existing(data / "llmservingsim" / f"{stem}_per_sequence.csv"), VOCABULARY)
    return _entry(
        "casys-kaist/LLMServingSim, profile of Llama-3.1-8B on RTX 4090 with vLLM 0.19, bf16",
        "fitted",
        vectorized=_completed(_fits(joined([dense, sampler]), "rtx-4090"), "extrapolated"),
    )


def _rtx_3090(data: Path) -> Entry:
    half = {**LLAMA_8B, "rotated": LLAMA_8B["rotated"] / 2, "width": LLAMA_8B["width"] / 2}
    profiles = {
        "meta-llama_Llama-3.1-8B_tp1": (LLAMA_8B, False),
        "meta-llama_Llama-3.1-8B_tp2": (half, False),
        "microsoft_Phi-mini-MoE-instruct_tp1": ({**LLAMA_8B, "width": 960.0}, True),
    }
    tables = [
        read_llmservingsim_layers(
            existing(data / "llmservingsim" / f"v0_perf_models_RTX3090_{name}_layers.csv"), model, fused_norm=fused
        )
        for name, (model, fused) in profiles.items()
    ]
    return _entry(
        "casys-kaist/LLMServingSim v0, Llama-3.1-8B and Phi-mini-MoE on RTX 3090 with Transformers, each of its kernels",
        "fitted",
        vectorized=_completed(_fits(joined(tables), "rtx-3090"), "extrapolated"),
    )


def _mi210(data: Path) -> Entry:
    table = read_llmcompass(existing(data / "llmcompass_measured_ops.csv"), "MI210")
    return _entry(
        "PrincetonUniversity/LLMCompass@2e015fd, PyTorch's kernels on MI210 in fp32, without their launches",
        "fitted",
        vectorized=_completed(_fits(table, "mi210"), "extrapolated"),
    )


def _fits(tables: Tables, family: str, given: Mapping[str, Mapping[str, float]] | None = None) -> dict[str, Entry]:
    device = device_of(family)
    fitted: dict[str, Entry] = {}
    for kind, table in tables.items():
        result = fit_elementwise(table, device, (given or {}).get(kind))
        fitted[kind] = {"evidence": "calibrated", **figures(result), **result.constants}
    return fitted


def _scalar(fitted: dict[str, Entry]) -> dict[str, Entry]:
    stood_in = {kind: {"evidence": "extrapolated", **_constants(fitted[other])} for kind, other in STAND_INS.items()}
    return _completed({**fitted, **stood_in}, "extrapolated")


def _completed(fitted: dict[str, Entry], evidence: Evidence) -> dict[str, Entry]:
    """All classes: those that were fitted, and estimates of the others."""
    estimated = {
        kind: {
            "evidence": evidence,
            "memory_fraction": fraction,
            "cache_gain": 1.0,
            "vector_fraction": VECTOR_FRACTION,
            "kernel_latency_s": latency_s,
        }
        for kind, (fraction, latency_s) in ALONE.items()
    }
    return {kind: fitted.get(kind, estimate) for kind, estimate in estimated.items()}


def _entry(source: str, evidence: str, **kernels: dict[str, Entry]) -> Entry:
    measured = "scalar" if "scalar" in kernels else "vectorized"
    return {**provenance(source, evidence, "elementwise"), "measured": measured, "kernels": kernels}


def _constants(entry: Entry) -> Entry:
    return {name: value for name, value in entry.items() if isinstance(value, float)}
