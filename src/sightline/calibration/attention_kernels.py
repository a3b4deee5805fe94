"""The engines' attention kernels that tables were measured with: what is known of each, and where its table lies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sightline.calibration.attention_beside import Beside
from sightline.calibration.attention_forms import (
    BY_GROUPS,
    FREE_ROUNDS,
    NARROW_TIME,
    PACKED,
    PAIRED,
    SMALL_TILES,
    SPLITS,
    Form,
)
from sightline.calibration.attention_serving import DECODE_PRIORS, PREFILL_PRIORS, Kernel
from sightline.calibration.attention_serving_tables import (
    ServingAttentionTable,
    joined,
    read_aiconfigurator_serving,
    read_frontier,
    read_infersim,
    read_llmservingsim,
    read_llmservingsim_layers,
)
from sightline.calibration.entries import existing
from sightline.calibration.priors import Prior

AICONFIGURATOR = "ai-dynamo/aiconfigurator@095f58a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A table, the kernel it was measured with, and the family whose constants are its priors."""

    source: str
    read: Callable[[Path], ServingAttentionTable]
    kernel: Kernel
    known: Form = field(default_factory=dict)
    """What else is known of the kernel where devices are fitted together."""
    found: tuple[str, ...] = ()
    """What of its given constants the table has shown, not the kernel's code."""
    beside: Beside | None = None
    """What the table times besides attention."""
    relative: str | None = None
    filters: tuple[str, ...] = ()


def _aiconfigurator(name: str) -> Callable[[Path], ServingAttentionTable]:
    return lambda data: read_aiconfigurator_serving(existing(data / "aiconfigurator" / name))


def _infersim(pattern: str, *, without: str = "nothing") -> Callable[[Path], ServingAttentionTable]:
    def read(data: Path) -> ServingAttentionTable:
        paths = [path for path in sorted((data / "infersim").glob(f"{pattern}.csv")) if without not in path.name]
        return joined([read_infersim(path) for path in paths or [existing(data / "infersim" / f"{pattern}.csv")]])

    return read


def _frontier(*, prefill: bool) -> Callable[[Path], ServingAttentionTable]:
    name = "a800_meta-llama_Llama-2-7b-hf_attention.csv"
    return lambda data: read_frontier(existing(data / "frontier" / name), prefill=prefill)


def _rtx_4090(*, prefill: bool) -> Callable[[Path], ServingAttentionTable]:
    name = "perf_RTX4090_meta-llama_Llama-3.1-8B_bf16_tp1_attention.csv"
    return lambda data: read_llmservingsim(existing(data / "llmservingsim" / name), prefill=prefill)


def _rtx_3090(data: Path) -> ServingAttentionTable:
    name = "v0_perf_models_RTX3090_meta-llama_Llama-3.1-8B_tp1_layers.csv"
    return read_llmservingsim_layers(existing(data / "llmservingsim" / name))


WRITING: Mapping[str, Prior] = {
    "write_round_s": Prior(value=3e-6, spread=0.7, low=1e-7, high=2e-5),
    "throttled_share": Prior(value=0.15, spread=0.5, low=1e-3, high=0.4),
    "narrowing_s": Prior(value=2e-6, spread=0.5, low=1e-7, high=1e-5),
    "narrowing": Prior(value=0.5, spread=0.7, low=0.02, high=3.0),
}
"""What a benchmark of vLLM until 0.15 times besides: a token's block of threads waits for its slot, for its keys and
values, and for its stores, and an FP8 cache takes queries in FP8; and the power limit, as on this device's matmuls."""

PREFILL: Mapping[str, Measured] = {
    "a100-sxm": Measured(
        source=f"{AICONFIGURATOR}, context attention of a100_sxm with TensorRT-LLM 1.0.0",
        read=_aiconfigurator("attn_context_a100_sxm_trtllm-1.0.0.csv"),
        kernel=Kernel(
            decode=False,
            given={**SMALL_TILES, "fp8_cache_time": 1.0},
            priors=PREFILL_PRIORS,
            surface={"queries": 11, "heads": 14, "group_heads": 4},
        ),
        beside="rope",
    ),
    "h100-sxm": Measured(
        source=f"{AICONFIGURATOR}, context attention of h100_sxm with vLLM 0.14.0",
        read=_aiconfigurator("attn_context_h100_sxm_vllm-0.14.0.csv"),
        kernel=Kernel(
            decode=False,
            given=PACKED,
            priors={**PREFILL_PRIORS, **WRITING},
            surface={"queries": 11, "heads": 8, "kv_heads": 7, "group_heads": 3, "kv_bytes": 2},
        ),
        beside="cache write",
    ),
    "b200-sxm": Measured(
        source=f"{AICONFIGURATOR}, context attention of b200_sxm with vLLM 0.19.0",
        read=_aiconfigurator("attn_context_b200_sxm_vllm-0.19.0.csv"),
        kernel=Kernel(
            decode=False,
            given=PAIRED,
            priors=PREFILL_PRIORS,
            surface={"queries": 18, "heads": 29, "group_heads": 2, "head_dim": 2, "kv_bytes": 2},
        ),
        known={"most_softmax": 1.0, "fp8_cache_time": NARROW_TIME},
    ),
    "h20": Measured(
        source="InferSim, attention of whole prompts on H20",
        read=_infersim("mha_prefill_h20_*"),
        kernel=Kernel(decode=False, given={**PACKED, "fp8_cache_time": 1.1}, priors=PREFILL_PRIORS),
        relative="h100-sxm",
    ),
    "h800-sxm": Measured(
        source="InferSim, expanded multi-latent attention of whole prompts on H800",
        read=_infersim("mla_prefill_h800_*"),
        kernel=Kernel(decode=False, given={**PACKED, "fp8_cache_time": 1.1}, priors=PREFILL_PRIORS),
        relative="h100-sxm",
    ),
    "a800-sxm": Measured(
        source="NetX-lab/Frontier@a4b22df, prefill chunks of Llama-2-7B on A800 with FlashInfer",
        read=_frontier(prefill=True),
        kernel=Kernel(
            decode=False,
            given={**SMALL_TILES, "fp8_cache_time": 1.0},
            priors=PREFILL_PRIORS,
            launched=True,
            surface={"queries": 15, "context": 15},
        ),
        relative="a100-sxm",
    ),
    "rtx-4090": Measured(
        source="LLMServingSim, prefill chunks of Llama-3.1-8B on RTX 4090 with vLLM 0.19.0",
        read=_rtx_4090(prefill=True),
        kernel=Kernel(decode=False, given={**SMALL_TILES, "fp8_cache_time": 1.0}, priors=PREFILL_PRIORS),
        relative="a100-sxm",
    ),
    "rtx-3090": Measured(
        source="LLMServingSim, first version, whole prompts of Llama-3.1-8B on RTX 3090",
        filters=("two ranks left out: at most prompts slower than half of one rank's time",),
        read=_rtx_3090,
        kernel=Kernel(decode=False, given={**SMALL_TILES, "fp8_cache_time": 1.0}, priors=PREFILL_PRIORS),
        relative="a100-sxm",
    ),
}
"""Prefill kernels by device family; those without relative first."""

UNGROUPED = Kernel(
    decode=True,
    given={**FREE_ROUNDS, "row_block": 1.0, "row_granule": 1.0},
    priors={
        **{name: p for name, p in DECODE_PRIORS.items() if name != "unit_share"},
        "unit_bandwidth": Prior(value=3e10, spread=0.7, low=1e10, high=4e11),
    },
    surface={"tiles": 17, "context": 17},
)
"""TensorRT-LLM's kernel for heads with keys and values of their own."""
LARGEST_GROUP = 32.0
"""Heads beyond which TensorRT-LLM 1.0 on Ampere takes the ungrouped kernel."""

DECODE: Mapping[str, Measured] = {
    "a100-sxm": Measured(
        source=f"{AICONFIGURATOR}, generation attention of a100_sxm with TensorRT-LLM 1.0.0",
        read=_aiconfigurator("attn_generation_a100_sxm_trtllm-1.0.0.csv"),
        kernel=Kernel(
            decode=True,
            given=FREE_ROUNDS,
            priors=DECODE_PRIORS,
            repeated_share=0.5,
            surface={"tiles": 15, "context": 17, "group": 5},
        ),
        beside="rope",
        filters=(
            "grouped heads: twice as fast as their cache from device memory; keys and values taken to share their pages",
        ),
    ),
    "h100-sxm": Measured(
        source=f"{AICONFIGURATOR}, generation attention of h100_sxm with vLLM 0.14.0",
        read=_aiconfigurator("attn_generation_h100_sxm_vllm-0.14.0.csv"),
        kernel=Kernel(
            decode=True,
            given={**BY_GROUPS, "split_sequences": 16.0},
            priors=DECODE_PRIORS,
            surface={"tiles": 15, "context": 17, "kv_heads": 4, "key_bytes": 3},
        ),
        found=("split_sequences",),
        beside="cache write",
    ),
    "b200-sxm": Measured(
        source=f"{AICONFIGURATOR}, generation attention of b200_sxm with vLLM 0.19.0",
        read=_aiconfigurator("attn_generation_b200_sxm_vllm-0.19.0.csv"),
        kernel=Kernel(
            decode=True,
            given={**BY_GROUPS, "most_splits": 24.0, "wide_head_exponent": 0.6},
            priors=DECODE_PRIORS,
            surface={"tiles": 15, "context": 15, "group": 3, "head_dim": 2, "kv_bytes": 2},
        ),
        found=("most_splits", "wide_head_exponent"),
        known={"fp8_cache_time": NARROW_TIME},
    ),
    "h20": Measured(
        source="InferSim, decoding against keys and values per head on H20",
        read=_infersim("mha_decode_h20_*", without="_64-2-128"),
        kernel=Kernel(decode=True, given=SPLITS, priors=DECODE_PRIORS, launched=True),
        relative="h100-sxm",
        filters=("64-2-128 left out: its kernel does not split contexts, another's than the other files'",),
    ),
    "h800-sxm": Measured(
        source="InferSim, decoding against keys and values per head on H800",
        read=_infersim("mha_decode_h800_*"),
        kernel=Kernel(decode=True, given=SPLITS, priors=DECODE_PRIORS, launched=True),
        relative="h100-sxm",
    ),
    "a800-sxm": Measured(
        source="NetX-lab/Frontier@a4b22df, decoding steps of Llama-2-7B on A800 with FlashInfer",
        read=_frontier(prefill=False),
        kernel=Kernel(decode=True, given=FREE_ROUNDS, priors=DECODE_PRIORS, launched=True),
        relative="a100-sxm",
    ),
    "rtx-4090": Measured(
        source="LLMServingSim, decoding steps of Llama-3.1-8B on RTX 4090 with vLLM 0.19.0",
        read=_rtx_4090(prefill=False),
        kernel=Kernel(decode=True, given=FREE_ROUNDS, priors=DECODE_PRIORS),
        relative="a100-sxm",
    ),
}
"""Decoding kernels of keys and values per head, by device family."""

LATENT: Mapping[str, Measured] = {
    "h800-sxm": Measured(
        source="InferSim, absorbed multi-latent decoding on H800 (FlashMLA)",
        read=_infersim("mla_decode_h800_*"),
        kernel=Kernel(
            decode=True, given={**SPLITS, "fp8_cache_time": 1.0}, priors=DECODE_PRIORS, latent=True, launched=True
        ),
    ),
    "h20": Measured(
        source="InferSim, absorbed multi-latent decoding on H20 (FlashMLA)",
        read=_infersim("mla_decode_h20_*"),
        kernel=Kernel(
            decode=True, given={**SPLITS, "fp8_cache_time": 1.0}, priors=DECODE_PRIORS, latent=True, launched=True
        ),
        relative="h800-sxm",
    ),
}
"""Decoding kernels of one shared latent, by device family."""
