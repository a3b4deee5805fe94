"""What every family's matmuls were measured in, and whose constants stand in for the rest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sightline.calibration.matmul_tables import (
    MatmulTable,
    read_infersim_matmul,
    read_llmservingsim_matmul,
    read_vidur_matmul,
)

DTYPES = {"16-bit": "bfloat16", "fp8": "fp8", "w8a8": "sq", "w8a16": "int8_wo", "w4a16": "int4_wo"}
"""Formats by the names that aiconfigurator's tables give them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A family measured over a grid of shapes, format by format."""

    device: str
    file: str
    library: str
    kernels: Sequence[str]
    shapes_of: str
    """Family whose tiles and misaligned slowdown are given."""
    kept: str = ""
    """Format whose shipped constants are kept and only judged again."""
    weight_only: Mapping[str, float] = field(default_factory=dict)
    """What is given for formats that quantize the weights alone, as the times show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """A family measured in the layers of a few models, one format; the rest is a relative's."""

    device: str
    kernel: str
    relative: str
    """Family whose constants the table moves."""
    shapes_of: str
    """Family whose tiles and misaligned slowdown are given."""
    source: str
    files: Sequence[str]
    read: Callable[[Sequence[Path]], MatmulTable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a family was measured in, and whose constants stand in for other formats, first come first served."""

    grid: Grid | None = None
    layers: Sequence[Layers] = ()
    lenders: Sequence[str] = field(default_factory=tuple)


def _first(read: Callable[[Path], MatmulTable]) -> Callable[[Sequence[Path]], MatmulTable]:
    return lambda paths: read(paths[0])


_ADA_LAYERS = {
    "qkv_proj": (6144, 4096),
    "o_proj": (4096, 4096),
    "gate_up_proj": (28672, 4096),
    "down_proj": (4096, 14336),
}
_AMPERE_LAYERS = {
    "q_proj": (4096, 4096),
    "k_proj": (1024, 4096),
    "o_proj": (4096, 4096),
    "gate_proj": (14336, 4096),
    "down_proj": (4096, 14336),
}
"""Linear layers (n, k) of Llama-3.1-8B, joined and apart."""

FAMILIES: Mapping[str, Family] = {
    "a100-sxm": Family(
        grid=Grid(
            device="a100-sxm-80gb",
            file="gemm_a100_sxm_trtllm-1.0.0.csv",
            library="TensorRT-LLM 1.0.0",
            kernels=("16-bit", "w8a8", "w8a16", "w4a16"),
            shapes_of="a100-sxm",
            kept="16-bit",
        ),
    ),
    "h100-sxm": Family(
        grid=Grid(
            device="h100-sxm-80gb",
            file="gemm_h100_sxm_trtllm-1.2.0rc5.csv",
            library="TensorRT-LLM 1.2.0rc5",
            kernels=("16-bit", "fp8"),
            shapes_of="h100-sxm",
            kept="16-bit",
        ),
        lenders=("h800-sxm", "h200-sxm"),
    ),
    "h200-sxm": Family(
        grid=Grid(
            device="h200-sxm-141gb",
            file="gemm_h200_sxm_trtllm-1.2.0rc5.csv",
            library="TensorRT-LLM 1.2.0rc5",
            kernels=("16-bit", "fp8", "w8a8", "w8a16", "w4a16"),
            shapes_of="h200-sxm",
            weight_only={"tried_rows": 15.0, "shallow_k": 128.0},
        ),
        lenders=("h800-sxm",),
    ),
    "b200-sxm": Family(
        grid=Grid(
            device="b200-sxm-180gb",
            file="gemm_b200_sxm_trtllm-1.2.0rc5_bf16_fp8.csv",
            library="TensorRT-LLM 1.2.0rc5",
            kernels=("16-bit", "fp8"),
            shapes_of="h200-sxm",
        ),
        lenders=("h800-sxm", "h200-sxm"),
    ),
    "a800-sxm": Family(
        layers=(
            Layers(
                device="a800-sxm-80gb",
                kernel="16-bit",
                relative="a100-sxm",
                shapes_of="rtx-4090",
                source="NetX-lab/Frontier@a4b22df, linear layers of Llama-2-7B on A800",
                files=("frontier/a800_meta-llama_Llama-2-7b-hf_mlp.csv",),
                read=read_vidur_matmul,
            ),
        ),
        lenders=("a100-sxm",),
    ),
    "h800-sxm": Family(
        layers=(
            Layers(
                device="h800-sxm-80gb",
                kernel="16-bit",
                relative="h100-sxm",
                shapes_of="h100-sxm",
                source="NetX-lab/Frontier@a4b22df, linear layers of Llama-2-7B on H800, kernels alone",
                files=("frontier/h800_llama2_7b_dense_example_linear_op_kernel_only.csv",),
                read=read_vidur_matmul,
            ),
            Layers(
                device="h800-sxm-80gb",
                kernel="fp8-block",
                relative="h100-sxm",
                shapes_of="h100-sxm",
                source="alibaba/InferSim, DeepGEMM on H800",
                files=("infersim/gemm_h800_data.csv",),
                read=_first(read_infersim_matmul),
            ),
        ),
        lenders=("h100-sxm", "h200-sxm"),
    ),
    "h20": Family(
        layers=(
            Layers(
                device="h20",
                kernel="fp8-block",
                relative="h100-sxm",
                shapes_of="h200-sxm",
                source="alibaba/InferSim, DeepGEMM on H20",
                files=("infersim/gemm_h20_data.csv",),
                read=_first(read_infersim_matmul),
            ),
        ),
        lenders=("h200-sxm",),
    ),
    "a40": Family(
        layers=(
            Layers(
                device="a40",
                kernel="16-bit",
                relative="a100-sxm",
                shapes_of="rtx-4090",
                source="microsoft/vidur@7d47513, linear layers of Llama-2-7B and 70B on A40",
                files=("vidur/a40_Llama-2-7b-hf_mlp.csv", "vidur/a40_Llama-2-70b-hf_mlp.csv"),
                read=read_vidur_matmul,
            ),
        ),
        lenders=("a100-sxm",),
    ),
    "rtx-3090": Family(
        layers=(
            Layers(
                device="rtx-3090",
                kernel="16-bit",
                relative="a100-sxm",
                shapes_of="rtx-4090",
                source="casys-kaist/LLMServingSim, layers of Llama-3.1-8B on RTX 3090",
                files=("llmservingsim/v0_perf_models_RTX3090_meta-llama_Llama-3.1-8B_tp1_layers.csv",),
                read=lambda paths: read_llmservingsim_matmul(
                    paths[0], _AMPERE_LAYERS, layer="layer_name", tokens="input", unit="latency(ns)"
                ),
            ),
        ),
        lenders=("a100-sxm",),
    ),
    "rtx-4090": Family(
        layers=(
            Layers(
                device="rtx-4090",
                kernel="16-bit",
                relative="a100-sxm",
                shapes_of="rtx-4090",
                source="casys-kaist/LLMServingSim, layers of Llama-3.1-8B on RTX 4090, vLLM 0.19",
                files=("llmservingsim/perf_RTX4090_meta-llama_Llama-3.1-8B_bf16_tp1_dense.csv",),
                read=lambda paths: read_llmservingsim_matmul(
                    paths[0], _ADA_LAYERS, layer="layer", tokens="tokens", unit="time_us"
                ),
            ),
        ),
        lenders=("a100-sxm", "h100-sxm"),
    ),
}
