"""The formats of measured tables: recognised by their columns, never by a file's name, and read into one vocabulary.

A reader returns the samples of one part of a calibration, in SI units. Beside ``seconds`` they have:

- matmul: ``kernel`` (a number format: 16-bit, fp8, w8a16, ...), ``m``, ``n``, ``k``
- prefill_attention, decode_attention, latent_decode_attention: ``batch``, ``heads``, ``kv_heads``, ``head_dim``,
  ``value_dim``, ``query_tokens``, ``context_tokens``, ``window`` and ``kernel``, which says the elements of the cache
- attention: bars of fused attention as training calls it, by ``kernel``
- elementwise: those of ``streams``
- collectives: ``kernel`` (a kind: all_reduce, ...), ``ranks``, ``ranks_per_node``, ``bytes``
- grouped: ``kernel`` (a layout), ``experts``, ``local_experts``, ``rows_per_expert``, ``mfu``, ``n``, ``k``

and always ``row``, its place in the file, ``library`` and ``device``, empty where the file does not say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.calibration.readers import (
    aiconfigurator,
    collectives,
    infersim,
    llmservingsim,
    own_results,
    published,
    vidur,
)
from sightline.calibration.readers.raw_table import RawTable
from sightline.calibration.readers.vocabulary import NO_WINDOW
from sightline.errors import InputError

if TYPE_CHECKING:
    import polars as pl

Read = Callable[[RawTable], "pl.DataFrame"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way of writing measurements down."""

    name: str
    part: str
    columns: tuple[str, ...]
    """Columns that a table of this format has; others may stand beside them."""
    read: Read
    repeats: bool = False
    """A table times shapes several times as a matter of course: their median counts."""


def _formats(name: str, columns: str, readers: Mapping[str, Read], *, repeated: Sequence[str] = ()) -> list[Format]:
    """The formats of one kind of table, a reader for each part of a calibration that it tells of."""
    needed = tuple(columns.split())
    return [
        Format(name=name, part=part, columns=needed, read=_of_phase(read, part), repeats=part in repeated)
        for part, read in readers.items()
    ]


def _of_phase(read: Read, part: str) -> Read:
    """A reader of one phase of what ``read`` reads: steps have one query per sequence, prompts more.

    Steps against a latent are a part of their own.
    """
    if not part.endswith("_attention"):
        return read

    def phase(table: RawTable) -> "pl.DataFrame":
        import polars as pl

        rows = read(table)
        if "query_tokens" not in rows.columns:
            return rows
        lacking = {"latent": pl.lit(value=False), "window": pl.lit(NO_WINDOW)}
        rows = rows.with_columns(**{name: value for name, value in lacking.items() if name not in rows.columns})
        step, latent = pl.col("query_tokens") == 1, pl.col("latent")
        chosen = {"latent_decode_attention": step & latent, "decode_attention": step & ~latent}
        return rows.filter(chosen.get(part, ~step)).drop("latent")

    return phase


def _phases(read: Read, *parts: str) -> dict[str, Read]:
    return dict.fromkeys(parts or ("prefill_attention", "decode_attention"), read)


_VIDUR_MLP = "n_embd n_expanded_embd num_tokens"
_RESULT = "scenario.workload.operator time_s"
FORMATS: Sequence[Format] = (
    *_formats("AIConfigurator gemm", "gemm_dtype m n k latency", {"matmul": aiconfigurator.matmul}),
    *_formats("InferSim gemm", "m n k latency_us", {"matmul": infersim.matmul}),
    *_formats(
        "Vidur or Frontier mlp",
        f"time_stats.mlp_up_proj.median {_VIDUR_MLP} num_tensor_parallel_workers",
        {"matmul": vidur.matmul},
        repeated=["matmul"],
    ),
    *_formats(
        "Vidur or Frontier mlp",
        f"time_stats.input_layernorm.median {_VIDUR_MLP} n_head n_kv_head",
        {"elementwise": vidur.elementwise},
    ),
    *_formats(
        "InferSim grouped gemm",
        "num_local_experts tokens_per_expert hidden_size intermediate_size up_proj_us up_mfu",
        {"grouped": infersim.grouped},
    ),
    *_formats(
        "AIConfigurator attention",
        "batch_size isl num_heads num_key_value_heads head_dim step latency",
        _phases(aiconfigurator.attention),
    ),
    *_formats(
        "Vidur or Frontier attention",
        "time_stats.attn_prefill.median n_q_head n_kv_head prefill_chunk_size kv_cache_size",
        _phases(vidur.attention),
    ),
    *_formats(
        "LLMServingSim attention",
        "prefill_chunk kv_prefill n_decode kv_decode time_us",
        _phases(llmservingsim.attention),
    ),
    *_formats("InferSim gated delta decoding", "batchsize conv gdn_update", {"linear": infersim.gated_delta}),
    *_formats(
        "InferSim gated delta prefill", "seq_len conv kkt tril wu chunk_gdn chunk_o", {"linear": infersim.gated_delta}
    ),
    *_formats("InferSim sparse attention", "s_kv latency_us", {"sparse": infersim.sparse}),
    *_formats("InferSim sparse decoding", "dtype kv_dtype batch_size kv_len latency_us", {"sparse": infersim.sparse}),
    *_formats(
        "InferSim decoding",
        "dtype kv_dtype batch_size kv_len latency_us",
        _phases(infersim.decode, "decode_attention", "latent_decode_attention"),
    ),
    *_formats("InferSim prefill", "dtype seq_len latency_us", _phases(infersim.prefill, "prefill_attention")),
    *_formats(
        "LLMServingSim dense",
        "layer tokens time_us",
        {"matmul": llmservingsim.dense_matmul, "elementwise": llmservingsim.dense_elementwise},
        repeated=["matmul"],
    ),
    *_formats(
        "LLMServingSim per sequence",
        "layer sequences time_us",
        {"matmul": llmservingsim.sequence_matmul, "elementwise": llmservingsim.sequence_elementwise},
        repeated=["matmul"],
    ),
    *_formats(
        "LLMServingSim layers",
        "layer_name input kv_cache tp_size latency(ns)",
        {
            "matmul": llmservingsim.layers_matmul,
            "elementwise": llmservingsim.layers_elementwise,
            "prefill_attention": llmservingsim.layers_attention,
        },
        repeated=["matmul"],
    ),
    *(
        known
        for name, dtype in (("nccl", "nccl_dtype"), ("custom_allreduce", "allreduce_dtype"))
        for known in _formats(
            f"AIConfigurator {name}",
            f"op_name {dtype} num_gpus message_size latency",
            {"collectives": aiconfigurator.collectives},
        )
    ),
    *_formats(
        "Vidur or Frontier network",
        "collective num_workers devices_per_node size",
        {"collectives": vidur.network},
    ),
    *_formats(
        "APEX+ collectives",
        "gpu num_nodes num_gpus_per_node dtype size(kb) time(us)",
        {"collectives": collectives.apex},
    ),
    *_formats("nccl-tests output", "nccl_tests bytes time_us ranks", {"collectives": collectives.nccl_tests}),
    *_formats(
        "ml-engineering all-reduce",
        "payload algbw_GBps ranks ranks_per_node",
        {"collectives": published.all_reduce_bench},
    ),
    *_formats("LLMCompass operators", "op gpu M N_or_K throughput", {"elementwise": published.llmcompass}),
    *_formats(
        "FlashAttention charts",
        "gpu implementation pass causal head_dim seq_len tflops",
        {"attention": published.flash_attention},
    ),
    *_formats(
        "Sightline results",
        _RESULT,
        {
            "matmul": own_results.matmul,
            **_phases(own_results.attention, "prefill_attention", "decode_attention", "latent_decode_attention"),
            "elementwise": own_results.elementwise,
            "collectives": own_results.collectives,
        },
    ),
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
