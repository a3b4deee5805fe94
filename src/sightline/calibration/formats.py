"""The formats of measured tables: recognised by their columns, never by a file's name, and read into one vocabulary.

A reader returns the rows of one part of a calibration, in SI units. Beside ``seconds`` there are:

- matmul: ``kernel`` (a number format: 16-bit, fp8, w8a16, ...), ``m``, ``n``, ``k``
- prefill_attention, decode_attention, latent_decode_attention: ``batch``, ``heads``, ``kv_heads``, ``head_dim``,
  ``value_dim``, ``query_tokens``, ``context_tokens`` and ``kernel``, which says the elements of the cache
- elementwise: those of ``formats_elementwise``
- collectives: ``kernel`` (a kind: all_reduce, ...), ``ranks``, ``ranks_per_node``, ``bytes``
- grouped: ``kernel`` (a layout), ``experts``, ``local_experts``, ``rows_per_expert``, ``mfu``, ``n``, ``k``

and always ``row``, its place in the file, ``library`` and ``device``, empty where the file does not say.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.calibration import (
    formats_attention,
    formats_collectives,
    formats_elementwise,
    formats_infersim,
    formats_llmservingsim,
    formats_matmul,
    formats_results,
)
from sightline.calibration.raw_table import RawTable
from sightline.errors import InputError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way of writing measurements down."""

    name: str
    part: str
    columns: tuple[str, ...]
    """Columns that a table of this format has; others may stand beside them."""
    read: Callable[[RawTable], "pl.DataFrame"]


_AIC_ATTENTION = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "step", "latency")
_VIDUR_ATTENTION = (
    "time_stats.attn_prefill.median",
    "n_q_head",
    "n_kv_head",
    "prefill_chunk_size",
    "kv_cache_size",
)
_INFERSIM_DECODE = ("dtype", "kv_dtype", "batch_size", "kv_len", "latency_us")
_INFERSIM_PREFILL = ("dtype", "seq_len", "latency_us")
_SERVING_SIM = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")
_DENSE, _PER_SEQUENCE = ("layer", "tokens", "time_us"), ("layer", "sequences", "time_us")
_LAYERS = ("layer_name", "input", "kv_cache", "tp_size", "latency(ns)")
_RESULT = ("scenario.workload.operator", "time_s")

FORMATS: Sequence[Format] = (
    Format(
        name="AIConfigurator gemm",
        part="matmul",
        columns=("gemm_dtype", "m", "n", "k", "latency"),
        read=formats_matmul.aiconfigurator,
    ),
    Format(name="InferSim gemm", part="matmul", columns=("m", "n", "k", "latency_us"), read=formats_matmul.infersim),
    Format(
        name="Vidur or Frontier mlp",
        part="matmul",
        columns=(
            "time_stats.mlp_up_proj.median",
            "n_embd",
            "n_expanded_embd",
            "num_tokens",
            "num_tensor_parallel_workers",
        ),
        read=formats_matmul.vidur,
    ),
    Format(
        name="Vidur or Frontier mlp",
        part="elementwise",
        columns=("time_stats.input_layernorm.median", "n_embd", "n_expanded_embd", "num_tokens", "n_head", "n_kv_head"),
        read=formats_elementwise.vidur,
    ),
    Format(
        name="InferSim grouped gemm",
        part="grouped",
        columns=("num_local_experts", "tokens_per_expert", "hidden_size", "intermediate_size", "up_proj_us", "up_mfu"),
        read=formats_matmul.infersim_grouped,
    ),
    *(
        Format(name=f"{name} attention", part=part, columns=columns, read=formats_attention.of_phase(read, part))
        for name, columns, read in (
            ("AIConfigurator", _AIC_ATTENTION, formats_attention.aiconfigurator),
            ("Vidur or Frontier", _VIDUR_ATTENTION, formats_attention.vidur),
            ("LLMServingSim", _SERVING_SIM, formats_llmservingsim.attention),
            ("Sightline", _RESULT, formats_results.attention),
        )
        for part in ("prefill_attention", "decode_attention")
    ),
    *(
        Format(
            name="InferSim decoding", part=part, columns=_INFERSIM_DECODE, read=formats_attention.of_phase(read, part)
        )
        for read in (formats_infersim.decode,)
        for part in ("decode_attention", "latent_decode_attention")
    ),
    Format(name="InferSim prefill", part="prefill_attention", columns=_INFERSIM_PREFILL, read=formats_infersim.prefill),
    *(
        Format(name=f"LLMServingSim {name}", part=part, columns=columns, read=read)
        for name, columns, readers in (
            (
                "dense",
                _DENSE,
                {"matmul": formats_llmservingsim.dense_matmul, "elementwise": formats_llmservingsim.dense_elementwise},
            ),
            (
                "per sequence",
                _PER_SEQUENCE,
                {
                    "matmul": formats_llmservingsim.sequence_matmul,
                    "elementwise": formats_llmservingsim.sequence_elementwise,
                },
            ),
            (
                "layers",
                _LAYERS,
                {
                    "matmul": formats_llmservingsim.layers_matmul,
                    "elementwise": formats_llmservingsim.layers_elementwise,
                    "prefill_attention": formats_llmservingsim.layers_attention,
                },
            ),
        )
        for part, read in readers.items()
    ),
    Format(
        name="AIConfigurator nccl",
        part="collectives",
        columns=("op_name", "nccl_dtype", "num_gpus", "message_size", "latency"),
        read=formats_collectives.aiconfigurator,
    ),
    Format(
        name="AIConfigurator custom_allreduce",
        part="collectives",
        columns=("op_name", "allreduce_dtype", "num_gpus", "message_size", "latency"),
        read=formats_collectives.aiconfigurator,
    ),
    Format(
        name="Vidur or Frontier network",
        part="collectives",
        columns=("collective", "num_workers", "devices_per_node", "size"),
        read=formats_collectives.vidur,
    ),
    Format(
        name="APEX+ collectives",
        part="collectives",
        columns=("gpu", "num_nodes", "num_gpus_per_node", "dtype", "size(kb)", "time(us)"),
        read=formats_collectives.apex,
    ),
    Format(
        name="nccl-tests output",
        part="collectives",
        columns=("nccl_tests", "bytes", "time_us", "ranks"),
        read=formats_collectives.nccl_tests,
    ),
    Format(name="Sightline matmul", part="matmul", columns=_RESULT, read=formats_results.matmul),
    Format(
        name="Sightline attention",
        part="latent_decode_attention",
        columns=_RESULT,
        read=formats_attention.of_phase(formats_results.attention, "latent_decode_attention"),
    ),
    Format(name="Sightline elementwise", part="elementwise", columns=_RESULT, read=formats_results.elementwise),
    Format(name="Sightline collectives", part="collectives", columns=_RESULT, read=formats_results.collectives),
)
"""One line per format; the first that fits a table's columns and part reads it."""


def formats_of(table: RawTable) -> list[Format]:
    """Return the formats that a table has, at most one per part; raises `InputError` naming the nearest one's columns."""
    fitting: dict[str, Format] = {}
    for known in FORMATS:
        if set(known.columns) <= table.columns:
            fitting.setdefault(known.part, known)
    if not fitting:
        raise InputError(f"'{table.path}' {_nearest(table)}")
    return list(fitting.values())


def _nearest(table: RawTable) -> str:
    best = max(FORMATS, key=lambda f: len(set(f.columns) & table.columns) / len(f.columns))
    missing = [c for c in best.columns if c not in table.columns]
    if len(missing) == len(best.columns):
        return f"has none of the known formats' columns; known: {', '.join(dict.fromkeys(f.name for f in FORMATS))}"
    return (
        f"lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; nearest format: {best.name}, which needs "
        f"{', '.join(best.columns)}"
    )
