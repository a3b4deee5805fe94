"""The formats of measured tables: recognised by their columns, never by a file's name, and read into one vocabulary.

A reader returns the samples of one part of a calibration, in SI units. Beside ``seconds`` they have:

- matmul: ``kernel`` (a number format: 16-bit, fp8, w8a16, ...), ``m``, ``n``, ``k``
- prefill_attention, decode_attention, latent_decode_attention: ``batch``, ``heads``, ``kv_heads``, ``head_dim``,
  ``value_dim``, ``query_tokens``, ``context_tokens``, ``window`` and ``kernel``, which says the elements of the cache
- attention: bars of fused attention as training calls it, by ``kernel``
- elementwise: those of ``vocabulary``
- collectives: ``kernel`` (a kind: all_reduce, ...), ``ranks``, ``ranks_per_node``, ``bytes``
- grouped: ``kernel`` (a layout), ``experts``, ``local_experts``, ``rows_per_expert``, ``mfu``, ``n``, ``k``

and always ``row``, its place in the file, ``library`` and ``device``, empty where the file does not say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.calibration.readers import aiconfigurator as aic
from sightline.calibration.readers import infersim, vidur
from sightline.calibration.readers import llmservingsim as serving
from sightline.calibration.readers import other_tables as other
from sightline.calibration.readers import own_results as own
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


_LATENT = "latent_decode_attention"
_LAYERS, _SEQUENCES, _DENSE = (
    "layer_name input kv_cache tp_size latency(ns)",
    "layer sequences time_us",
    "layer tokens time_us",
)
_OWN = {"matmul": own.matmul, "elementwise": own.elementwise, "collectives": own.collectives}
_KNOWN: Sequence[tuple[str, str, Mapping[str, Read]]] = (
    ("AIConfigurator gemm", "gemm_dtype m n k latency", {"matmul": aic.matmul}),
    (
        "AIConfigurator attention",
        "batch_size isl num_heads num_key_value_heads head_dim step latency",
        _phases(aic.attention),
    ),
    ("AIConfigurator nccl", "op_name nccl_dtype num_gpus message_size latency", {"collectives": aic.collectives}),
    (
        "AIConfigurator custom_allreduce",
        "op_name allreduce_dtype num_gpus message_size latency",
        {"collectives": aic.collectives},
    ),
    ("InferSim gemm", "m n k latency_us", {"matmul": infersim.matmul}),
    (
        "InferSim grouped gemm",
        "num_local_experts tokens_per_expert hidden_size intermediate_size up_proj_us up_mfu",
        {"grouped": infersim.grouped},
    ),
    ("InferSim gated delta decoding", "batchsize conv gdn_update", {"linear": infersim.gated_delta}),
    ("InferSim gated delta prefill", "seq_len conv kkt tril wu chunk_gdn chunk_o", {"linear": infersim.gated_delta}),
    ("InferSim sparse attention", "s_kv latency_us", {"sparse": infersim.sparse}),
    (
        "InferSim decoding",
        "dtype kv_dtype batch_size kv_len latency_us",
        {**_phases(infersim.decode, "decode_attention", _LATENT), "sparse": infersim.sparse},
    ),
    ("InferSim prefill", "dtype seq_len latency_us", _phases(infersim.prefill, "prefill_attention")),
    (
        "Vidur or Frontier mlp",
        "time_stats.mlp_up_proj.median n_embd n_expanded_embd num_tokens num_tensor_parallel_workers",
        {"matmul": vidur.matmul},
    ),
    (
        "Vidur or Frontier mlp",
        "time_stats.input_layernorm.median n_embd n_expanded_embd num_tokens n_head n_kv_head",
        {"elementwise": vidur.elementwise},
    ),
    (
        "Vidur or Frontier attention",
        "time_stats.attn_prefill.median n_q_head n_kv_head prefill_chunk_size kv_cache_size",
        _phases(vidur.attention),
    ),
    ("Vidur or Frontier network", "collective num_workers devices_per_node size", {"collectives": vidur.network}),
    ("LLMServingSim attention", "prefill_chunk kv_prefill n_decode kv_decode time_us", _phases(serving.attention)),
    ("LLMServingSim dense", _DENSE, {"matmul": serving.dense_matmul, "elementwise": serving.dense_elementwise}),
    (
        "LLMServingSim per sequence",
        _SEQUENCES,
        {"matmul": serving.sequence_matmul, "elementwise": serving.sequence_elementwise},
    ),
    (
        "LLMServingSim layers",
        _LAYERS,
        {
            "matmul": serving.layers_matmul,
            "elementwise": serving.layers_elementwise,
            "prefill_attention": serving.layers_attention,
        },
    ),
    ("APEX+ collectives", "gpu num_nodes num_gpus_per_node dtype size(kb) time(us)", {"collectives": other.apex}),
    ("nccl-tests output", "nccl_tests bytes time_us ranks", {"collectives": other.nccl_tests}),
    ("ml-engineering all-reduce", "payload algbw_GBps ranks ranks_per_node", {"collectives": other.all_reduce_bench}),
    ("LLMCompass operators", "op gpu M N_or_K throughput", {"elementwise": other.llmcompass}),
    (
        "FlashAttention charts",
        "gpu implementation pass causal head_dim seq_len tflops",
        {"attention": other.flash_attention},
    ),
    (
        "Sightline results",
        "scenario.workload.operator time_s",
        {**_OWN, **_phases(own.attention, "prefill_attention", "decode_attention", _LATENT)},
    ),
)
"""Name, columns, and a reader for each part that a table of the format tells of."""
_REPEATING = ("Vidur or Frontier mlp", "LLMServingSim dense", "LLMServingSim per sequence", "LLMServingSim layers")

FORMATS: Sequence[Format] = tuple(
    Format(
        name=name,
        part=part,
        columns=tuple(columns.split()),
        read=_of_phase(read, part),
        repeats=part == "matmul" and name in _REPEATING,
    )
    for name, columns, readers in _KNOWN
    for part, read in readers.items()
)
"""The first that fits a table's columns and part reads it."""


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
