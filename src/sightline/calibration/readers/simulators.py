"""Readers of the tables of serving simulators: AIConfigurator, Vidur and Frontier, InferSim, and LLMServingSim.

AIConfigurator has milliseconds inside one node and elements of messages; Vidur and Frontier have milliseconds, medians
over repeats, in 16 bits; InferSim has microseconds, and files' names or ``--shape`` say the heads of its attention;
LLMServingSim times layers by name, and ``--model`` says their shapes.
"""

import re
from collections.abc import Mapping
from math import inf
from typing import NamedTuple

import polars as pl

from sightline.calibration.readers import raw_table
from sightline.errors import InputError
from sightline.scenario import Model

_ELEMENT_BYTES = {"half": 2.0, "bfloat16": 2.0, "float16": 2.0, "int8": 1.0}
_SUMS = ("all_reduce", "reduce_scatter")


@raw_table.reads("AIConfigurator gemm", "gemm_dtype m n k latency", "matmul")
def gemm(table: raw_table.RawTable) -> pl.DataFrame:
    """Gemm tables: five layers in turn on one input, of vLLM's block formats one (collector/*/collect_gemm.py).

    TensorRT's formats come after three layers of 300 MB each (collector/trtllm/collect_gemm_trt.py).
    """
    dtype = table.text("gemm_dtype")
    framework = table.text("framework") if "framework" in table.columns else dtype
    copies = dtype.is_in(["bfloat16", "fp8"]).replace_strict({True: 5.0, False: inf})
    blocks = framework.replace_strict({"VLLM": 1.0}, default=5.0, return_dtype=pl.Float64)
    return table.samples(
        kernel=table.words("gemm_dtype", raw_table.MATMULS),
        **table.sizes(m="m", n="n", k="k"),
        seconds=table.times("latency", 1e-3),
        **{raw_table.WEIGHT_COPIES: copies.zip_with(~dtype.is_in(["fp8_block", "nvfp4"]), blocks)},
    )


@raw_table.reads(
    "AIConfigurator attention",
    "batch_size isl num_heads num_key_value_heads head_dim step latency",
    *raw_table.PHASES[:2],
)
def context_or_generation(table: raw_table.RawTable) -> pl.DataFrame:
    """Context and generation tables: ``step`` tokens are in the cache before ``isl`` new ones.

    No heads of keys and values means as many as heads; no window an unlimited one.
    """
    sizes = table.sizes(batch="batch_size", heads="num_heads", head_dim="head_dim", query_tokens="isl")
    kv_heads, step = (table.numbers(name, least=0) for name in ("num_key_value_heads", "step"))
    window = table.numbers("window_size", least=0) if "window_size" in table.columns else step * 0
    return raw_table.attention_samples(
        table,
        kernel=table.words("kv_cache_dtype", raw_table.CACHES) if "kv_cache_dtype" in table.columns else "16-bit cache",
        **sizes,
        kv_heads=sizes["heads"].zip_with(kv_heads == 0, kv_heads),
        context_tokens=sizes["query_tokens"] + step,
        window=(window * 0 + raw_table.NO_WINDOW).zip_with(window == 0, window),
        seconds=table.times("latency", 1e-3),
    )


@raw_table.reads("AIConfigurator nccl", "op_name nccl_dtype num_gpus message_size latency", "collectives")
@raw_table.reads(
    "AIConfigurator custom_allreduce", "op_name allreduce_dtype num_gpus message_size latency", "collectives"
)
def collectives(table: raw_table.RawTable) -> pl.DataFrame:
    """Tables nccl and custom_allreduce, whose ``message_size`` counts elements.

    Sums count in 16-bit floats alone: 8-bit integers add more slowly and not in the switch. Copies do not know the
    type, so they count in both. Of tables joined from several folders, the folder tells the library's release.
    """
    dtype = table.text("nccl_dtype" if "nccl_dtype" in table.columns else "allreduce_dtype")
    ranks, kinds = table.numbers("num_gpus", least=2), table.words("op_name", raw_table.COLLECTIVES)
    library: dict[str, pl.Series | str] = {}
    if "path" in table.columns:
        folders = table.text("path").str.split("/")
        library["library"] = folders.list.get(2, null_on_oob=True) + " " + folders.list.get(3, null_on_oob=True)
        if "kernel_source" in table.columns and "allreduce_dtype" in table.columns:
            library["library"] = library["library"] + " " + table.text("kernel_source")
    rows = table.samples(
        kernel=kinds,
        ranks=ranks,
        ranks_per_node=ranks,
        bytes=table.numbers("message_size") * dtype.replace_strict(_ELEMENT_BYTES, default=0, return_dtype=pl.Float64),
        seconds=table.times("latency", 1e-3),
        dtype=dtype,
        **library,
    )
    counted = (pl.col("dtype") != "int8") | ~pl.col("kernel").is_in(_SUMS)
    return rows.filter(pl.col("dtype").is_in(list(_ELEMENT_BYTES)) & counted).drop("dtype")


@raw_table.reads(
    "Vidur or Frontier mlp",
    "time_stats.mlp_up_proj.median n_embd n_expanded_embd num_tokens num_tensor_parallel_workers",
    "matmul",
    repeats=True,
)
def vidur_matmul(table: raw_table.RawTable) -> pl.DataFrame:
    """The linear layers of a transformer.

    Query, key and value are one product, and so are gate and up projection; tensor parallelism splits columns, then
    rows. A rank has one head of keys and values at least. MLPs are gated unless the profile says otherwise.
    """
    tokens, hidden, ffn, ranks, heads, kv_heads = _sizes(table)
    gated = table.text("use_gated_mlp").str.to_lowercase() != "false" if "use_gated_mlp" in table.columns else None
    inner = ffn * 2 if gated is None else ffn * (1 + gated.cast(pl.Float64))
    shapes = {
        "attn_pre_proj": ((heads + 2 * kv_heads.clip(lower_bound=ranks)) * (hidden / heads) / ranks, hidden),
        "attn_post_proj": (hidden, hidden / ranks),
        "mlp_up_proj": (inner / ranks, hidden),
        "mlp_down_proj": (hidden, ffn / ranks),
    }
    parts = [
        table.samples(kernel="16-bit", m=tokens, n=n, k=k, seconds=table.times(time, 1e-3, optional=True))
        for name, (n, k) in shapes.items()
        if (time := f"time_stats.{name}.median") in table.columns
    ]
    return pl.concat(parts).filter(pl.col("seconds") > 0)


@raw_table.reads(
    "Vidur or Frontier mlp",
    "time_stats.input_layernorm.median n_embd n_expanded_embd num_tokens n_head n_kv_head",
    "elementwise",
)
def vidur_elementwise(table: raw_table.RawTable) -> pl.DataFrame:
    """VLLM's kernels of 2023 other than the linear layers."""
    tokens, hidden, ffn, ranks, heads, kv_heads = _sizes(table)
    rotated = hidden / heads * (heads / ranks + (kv_heads / ranks).clip(lower_bound=1))
    norm = raw_table.Stream("norm", hidden, 2.0)
    kinds = {
        "emb": raw_table.Stream("embedding", hidden, 2.0),
        "input_layernorm": norm,
        "post_attention_layernorm": norm,
        "attn_rope": raw_table.Stream("rope", rotated, 2.0),
        "mlp_act": raw_table.Stream("activation", ffn / ranks, 3.0),
        "add": raw_table.Stream("residual", hidden, 3.0),
    }
    parts = [
        raw_table.stream_samples(table, kind, tokens, table.times(time, 1e-3, optional=True), "scalar")
        for name, kind in kinds.items()
        if (time := f"time_stats.{name}.median") in table.columns
    ]
    return raw_table.in_order(parts).filter(pl.col("seconds") > 0)


def _sizes(table: raw_table.RawTable) -> tuple[pl.Series, ...]:
    """Tokens, hidden size, width of the MLP, tensor-parallel ranks, heads, heads of keys and values."""
    names = ("num_tokens", "n_embd", "n_expanded_embd", "num_tensor_parallel_workers", "n_head", "n_kv_head")
    return tuple(table.numbers(name) for name in names)


@raw_table.reads(
    "Vidur or Frontier attention",
    "time_stats.attn_prefill.median n_q_head n_kv_head prefill_chunk_size kv_cache_size",
    *raw_table.PHASES[:2],
)
def vidur_attention(table: raw_table.RawTable) -> pl.DataFrame:
    """A prefill's chunk, or a decoding step of a batch."""
    heads, kv_heads, ranks = (table.numbers(c) for c in ("n_q_head", "n_kv_head", "num_tensor_parallel_workers"))
    prefill = table.text("is_prefill").str.to_lowercase() == "true"
    chunk, cache = table.numbers("prefill_chunk_size", least=0), table.numbers("kv_cache_size", least=0)
    prefill_s = table.times("time_stats.attn_prefill.median", 1e-3, optional=True)
    decode_s = table.times("time_stats.attn_decode.median", 1e-3, optional=True)
    new = chunk.zip_with(prefill, chunk * 0 + 1)
    rows = raw_table.attention_samples(
        table,
        batch=table.numbers("batch_size"),
        heads=heads / ranks,
        kv_heads=(kv_heads / ranks).clip(lower_bound=1),
        head_dim=table.numbers("n_embd") / heads,
        query_tokens=new,
        context_tokens=cache + new,
        seconds=prefill_s.zip_with(prefill, decode_s),
    )
    return rows.filter((pl.col("seconds") > 0) & (pl.col("query_tokens") > 0))


@raw_table.reads("Vidur or Frontier network", "collective num_workers devices_per_node size", "collectives")
def network(table: raw_table.RawTable) -> pl.DataFrame:
    """Collectives: bytes; the median over ranks and repeats of a size."""
    kinds = table.words("collective", raw_table.COLLECTIVES)
    printed = table.text("collective")
    seconds = pl.Series([None] * len(kinds), dtype=pl.Float64)
    for kind in printed.unique():
        if (name := f"time_stats.{kind}.median") in table.columns:
            seconds = table.times(name, 1e-3, optional=True).zip_with(printed == kind, seconds)
    rows = table.samples(
        kernel=kinds,
        ranks=table.numbers("num_workers", least=2),
        **table.sizes(ranks_per_node="devices_per_node", bytes="size"),
        seconds=seconds,
    ).filter(pl.col("seconds") > 0)
    keys = ["kernel", "ranks", "ranks_per_node", "bytes", "library", "device"]
    return rows.group_by(keys, maintain_order=True).agg(pl.col("row").first(), pl.col("seconds").median()).sort(keys)


_SHAPE = re.compile(r"(?:(mha|mla)[-_])?(?:.*_)?(\d+)-(\d+)-(\d+)$")
_DEVICE = re.compile(r"(?:decode|prefill)_([a-z]+\d+)_")
_SPARSE = "dsa_"
_SPARSE_KERNEL = re.compile(r"dsa_(decode|prefill)_.*_(logits|attn)-")


@raw_table.reads("InferSim gemm", "m n k latency_us", "matmul")
def infersim_matmul(table: raw_table.RawTable) -> pl.DataFrame:
    """Gemm tables: DeepGEMM's products with fp8 blocks, unless a ``dtype`` column says otherwise."""
    return table.samples(
        kernel=table.words("dtype", raw_table.MATMULS) if "dtype" in table.columns else "fp8-block",
        **table.sizes(m="m", n="n", k="k"),
        seconds=table.times("latency_us", 1e-6),
    )


@raw_table.reads(
    "InferSim grouped gemm",
    "num_local_experts tokens_per_expert hidden_size intermediate_size up_proj_us up_mfu",
    "grouped",
)
def grouped(table: raw_table.RawTable) -> pl.DataFrame:
    """Grouped gemm tables: the experts' up and down products in fp8 with block scales.

    Rows per expert were drawn around the stated number; ``mfu``, the share of the peak, tells how many there were.
    """
    hidden, width = table.numbers("hidden_size"), table.numbers("intermediate_size")
    names = {"experts": "num_experts", "local_experts": "num_local_experts", "rows_per_expert": "tokens_per_expert"}
    sizes = table.sizes(**names)
    parts = [
        table.samples(
            kernel="masked" if "batch_size_per_gpu" in table.columns else "contiguous",
            **sizes,
            mfu=table.numbers(f"{name}_mfu", least=0),
            n=n,
            k=k,
            seconds=table.times(f"{name}_proj_us", 1e-6),
        )
        for name, n, k in (("up", 2 * width, hidden), ("down", hidden, width))
    ]
    return pl.concat(parts)


@raw_table.reads("InferSim decoding", "dtype kv_dtype batch_size kv_len latency_us", *raw_table.PHASES[1:])
def decode(table: raw_table.RawTable) -> pl.DataFrame:
    """Tables mha and mla decoding: a step against ``kv_len`` tokens."""
    return raw_table.attention_samples(
        table,
        kernel=table.words("kv_dtype", raw_table.CACHES),
        **_shape(table, decoding=True),
        **table.sizes(batch="batch_size", context_tokens="kv_len"),
        query_tokens=1.0,
        seconds=table.times("latency_us", 1e-6),
        **_device(table),
    )


@raw_table.reads("InferSim prefill", "dtype seq_len latency_us", raw_table.PHASES[0])
def prefill(table: raw_table.RawTable) -> pl.DataFrame:
    """Tables mha and mla prefill: one whole prompt; multi-latent keys are expanded."""
    return raw_table.attention_samples(
        table,
        **_shape(table, decoding=False),
        **table.sizes(query_tokens="seq_len", context_tokens="seq_len"),
        seconds=table.times("latency_us", 1e-6),
        **_device(table),
    )


def _device(table: raw_table.RawTable) -> dict[str, pl.Series | str]:
    """The device that the file's name says where no column does."""
    match = _DEVICE.search(table.path.stem)
    return {} if "device" in table.columns or match is None else {"device": match[1]}


def _shape(table: raw_table.RawTable, *, decoding: bool) -> dict[str, float | bool]:
    """Heads, heads of keys and values, width of key and of value, and whether the cache is a latent.

    ``mha`` 32-8-128: heads, heads of keys and values, dimension. ``mla`` 128-512-64: heads, width of latent or value,
    width of the rotated part of the key.
    """
    stem = table.path.stem
    said = table.shape or stem
    match = _SHAPE.search(said)
    if match is None or (table.shape and match.start() != 0):
        raise InputError(
            f"'{table.path}' does not state its attention heads; set --shape to HEADS-KV_HEADS-HEAD_DIM such as "
            "32-8-128, or mla-HEADS-VALUE-ROTATED such as "
            f"mla-128-512-64{f', not {table.shape}' if table.shape else ''}"
        )
    if stem.startswith(_SPARSE) and not table.shape:
        raise InputError(f"'{table.path}' has sparse attention, which cannot be fitted from tables")
    heads, second, third = (float(number) for number in match.groups()[1:])
    if min(heads, second, third) < 1:
        raise InputError(f"'{table.path}': shape {said} contains 0; allowed: heads and dimensions of 1 or more")
    named = ("heads", "kv_heads", "head_dim", "value_dim", "latent")
    if (match[1] or ("mla" if "mla_" in stem and not table.shape else "mha")) == "mla":
        shape = (heads, 1.0 if decoding else heads, second + third, second, decoding)
    else:
        shape = (heads, second, third, third, False)
    return dict(zip(named, shape, strict=True))


@raw_table.reads("InferSim gated delta decoding", "batchsize conv gdn_update", "linear")
@raw_table.reads("InferSim gated delta prefill", "seq_len conv kkt tril wu chunk_gdn chunk_o", "linear")
def gated_delta(table: raw_table.RawTable) -> pl.DataFrame:
    """Tables gdn: one layer's kernels by sequences (an update of states) or by the tokens of one prompt."""
    kernels: dict[str, tuple[str, ...]]
    size: dict[str, pl.Series | float]
    decode = "gdn_update" in table.columns
    if decode:
        size = {"sequences": table.numbers("batchsize"), "new_tokens": 1.0}
        kernels = {"update": ("gdn_update",), "update convolution": ("conv",)}
    else:
        size = {"sequences": 1.0, "new_tokens": table.numbers("seq_len")}
        prefill = ("kkt", "tril", "wu", "chunk_gdn", "chunk_o")
        kernels = {"prefill": prefill, "prefill states": ("chunk_gdn",), "prefill convolution": ("conv",)}
    parts = [
        table.samples(
            kernel=kernel,
            **size,
            decode=decode,
            convolution=names == ("conv",),
            states=names == ("chunk_gdn",),
            seconds=pl.sum_horizontal([table.times(name, 1e-6).alias(name) for name in names]),
        )
        for kernel, names in kernels.items()
    ]
    return pl.concat(parts)


@raw_table.reads("InferSim decoding", "dtype kv_dtype batch_size kv_len latency_us", "sparse")
@raw_table.reads("InferSim sparse attention", "s_kv latency_us", "sparse")
def sparse(table: raw_table.RawTable) -> pl.DataFrame:
    """Tables dsa, whose files' names say kernel and phase, none of others.

    Where it is not stated, one sequence has one new token.
    """
    match = _SPARSE_KERNEL.match(table.path.stem)
    if match is None:
        return table.samples(seconds=0.0).clear()

    def stated(*names: str) -> pl.Series | float:
        return next((table.numbers(name) for name in names if name in table.columns), 1.0)

    return table.samples(
        kernel=match[2],
        indexer=match[2] == "logits",
        decode=match[1] == "decode",
        sequences=stated("batchsize", "batch_size"),
        new_tokens=stated("next_n", "s_q"),
        context_tokens=stated("s_kv", "kv_len"),
        seconds=table.times("latency_us", 1e-6),
        **_device(table),
    )


UNFUSED_NORM, UNFUSED_ROPE, UNFUSED_ACTIVATION = (18.0, 7.0), (9.0, 10.0), (5.0, 2.0)
"""16-bit tensors and kernels of Transformers' RMSNorm in fp32, rotary embedding and gated activation."""
SAMPLER = (6.0, 4.0)
"""16-bit tensors of the logits' size and kernels: a cast to fp32, a pass for the maximum, one for the choice."""
_DENSE, _SEQUENCES = "layer tokens time_us", "layer sequences time_us"
_LAYERS = "layer_name input kv_cache tp_size latency(ns)"
_RANKS = re.compile(r"_tp(\d+)(?:_|$)")


@raw_table.reads("LLMServingSim dense", _DENSE, "matmul", repeats=True)
@raw_table.reads("LLMServingSim per sequence", _SEQUENCES, "matmul", repeats=True)
@raw_table.reads("LLMServingSim layers", _LAYERS, "matmul", repeats=True)
def layers_matmul(table: raw_table.RawTable) -> pl.DataFrame:
    """The linear layers that a table names; those of the first version are Transformers'."""
    layers = _layers(table)
    m = layers.tokens
    return _by_name(
        layers,
        {
            name: layers.table.samples(kernel="16-bit", m=m, n=m * 0 + n, k=m * 0 + k, seconds=layers.seconds)
            for name, (n, k) in _linear_layers(_model(table), layers.ranks).items()
        },
    )


@raw_table.reads("LLMServingSim dense", _DENSE, "elementwise")
@raw_table.reads("LLMServingSim per sequence", _SEQUENCES, "elementwise")
def layers_elementwise(table: raw_table.RawTable) -> pl.DataFrame:
    """The same tables' other kernels; norms add the residual in place, the embedding of equal tokens is left out."""
    layers, model = _layers(table), _model(table)
    ranks = layers.ranks
    norm = raw_table.Stream("norm", model.hidden_size, 4.0, distinct=2.0)
    return _streams(
        layers,
        {
            "layernorm": norm,
            "final_layernorm": norm,
            "rotary_emb": raw_table.Stream("rope", _rotated(model) / ranks, 2.0),
            "act_fn": raw_table.Stream("activation", _width(model) / ranks, 3.0),
            "sampler": raw_table.Stream("sampling", model.vocab_size, SAMPLER[0], launches=SAMPLER[1]),
        },
    )


@raw_table.reads("LLMServingSim layers", _LAYERS, "elementwise")
def eager_elementwise(table: raw_table.RawTable) -> pl.DataFrame:
    """The other kernels of the first version's: several eager kernels each, but for layer norms."""
    layers, model = _layers(table), _model(table)
    ranks = layers.ranks
    tensors, launches = UNFUSED_NORM if model.norm == "rmsnorm" else (2.0, 1.0)
    norm = raw_table.Stream("norm", model.hidden_size, tensors, launches=launches)
    return _streams(
        layers,
        {
            "embedding": raw_table.Stream("embedding", model.hidden_size, 2.0),
            **dict.fromkeys(("input_layernorm", "post_layernorm", "final_layernorm"), norm),
            "rope": raw_table.Stream("rope", _rotated(model) / ranks, UNFUSED_ROPE[0], launches=UNFUSED_ROPE[1]),
            "act_fn": raw_table.Stream(
                "activation", _width(model) / ranks, UNFUSED_ACTIVATION[0], launches=UNFUSED_ACTIVATION[1]
            ),
        },
    )


@raw_table.reads("LLMServingSim layers", _LAYERS, raw_table.PHASES[0])
def layers_attention(table: raw_table.RawTable) -> pl.DataFrame:
    """The first version's attention of whole prompts."""
    prompts = _layers(table.where((table.text("layer_name") == "attn") & (table.numbers("input") > 1)))
    return _attention(prompts.table, prompts.tokens, prompts.tokens, 1.0, prompts.seconds, prompts.ranks)


@raw_table.reads(
    "LLMServingSim attention", "prefill_chunk kv_prefill n_decode kv_decode time_us", *raw_table.PHASES[:2]
)
def chunk_attention(table: raw_table.RawTable) -> pl.DataFrame:
    """Tables attention: microseconds of a chunk or of a step; those of both together are left out."""
    chunk, steps = table.numbers("prefill_chunk", least=0), table.numbers("n_decode", least=0)
    table = table.where((chunk > 0) != (steps > 0))
    chunk, steps = table.numbers("prefill_chunk", least=0), table.numbers("n_decode", least=0)
    prompt = chunk > 0
    new = chunk.zip_with(prompt, chunk * 0 + 1)
    batch = steps.zip_with(~prompt, steps * 0 + 1)
    cached = (table.numbers("kv_prefill", least=0) + chunk).zip_with(prompt, table.numbers("kv_decode", least=0))
    return _attention(table, new, cached, batch, table.times("time_us", 1e-6), _ranks(table))


def _attention(
    table: raw_table.RawTable,
    new: pl.Series,
    context: pl.Series,
    batch: pl.Series | float,
    seconds: pl.Series,
    ranks: pl.Series | float,
) -> pl.DataFrame:
    model = _model(table)
    rows = raw_table.attention_samples(
        table,
        batch=batch,
        heads=model.heads / ranks,
        kv_heads=model.kv_heads / ranks,
        head_dim=float(model.head_dim),
        query_tokens=new,
        context_tokens=context,
        seconds=seconds,
    )
    return rows.with_columns(pl.col("kv_heads").clip(lower_bound=1))


class Layers(NamedTuple):
    """A table of layers by their names."""

    table: raw_table.RawTable
    names: pl.Series
    tokens: pl.Series
    """Tokens, or sequences."""
    seconds: pl.Series
    ranks: pl.Series | float


def _layers(table: raw_table.RawTable) -> Layers:
    """A table's layers: microseconds by tokens or sequences, or nanoseconds of the first version's whole prompts."""
    if "layer_name" in table.columns:
        table = table.where(table.numbers("kv_cache", least=0) == 0)
        tokens, ranks = table.numbers("input"), table.numbers("tp_size")
        return Layers(table, table.text("layer_name"), tokens, table.times("latency(ns)", 1e-9), ranks)
    tokens = table.numbers("tokens" if "tokens" in table.columns else "sequences")
    return Layers(table, table.text("layer"), tokens, table.times("time_us", 1e-6), _ranks(table))


def _by_name(layers: Layers, samples: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The samples of each layer where the table names it."""
    return raw_table.in_order(
        [rows.filter((layers.names == name).fill_null(value=False)) for name, rows in samples.items()]
    )


def _streams(layers: Layers, kinds: Mapping[str, raw_table.Stream]) -> pl.DataFrame:
    """Samples of the layers that are bandwidth-bound kernels."""
    table, tokens, seconds = layers.table, layers.tokens, layers.seconds
    return _by_name(
        layers, {name: raw_table.stream_samples(table, stream, tokens, seconds) for name, stream in kinds.items()}
    )


def _linear_layers(model: Model, ranks: pl.Series | float) -> Mapping[str, tuple[pl.Series | float, pl.Series | float]]:
    """Columns and depth of each product by the layer's name; a mixture's experts are left out."""
    h, f, d = float(model.hidden_size), float(model.intermediate_size), float(model.head_dim)
    query, key = model.heads * d / ranks, model.kv_heads * d / ranks
    dense = {
        "gate_up_proj": (2 * f / ranks, h),
        "gate_proj": (f / ranks, h),
        "up_proj": (f / ranks, h),
        "down_proj": (h, f / ranks),
    }
    return {
        "qkv_proj": (query + 2 * key, h),
        "q_proj": (query, h),
        "k_proj": (key, h),
        "v_proj": (key, h),
        "o_proj": (h, query),
        "lm_head": (model.vocab_size / ranks, h),
        **(dense if model.experts is None else {}),
    }


def _rotated(model: Model) -> float:
    return float((model.heads + model.kv_heads) * model.head_dim)


def _width(model: Model) -> float:
    return float(model.intermediate_size if model.experts is None else model.experts.width)


def _model(table: raw_table.RawTable) -> Model:
    if table.model is None:
        raise InputError(f"'{table.path}' times layers by name; set --model NAME")
    return table.model


def _ranks(table: raw_table.RawTable) -> float:
    """Degree of tensor parallelism, which the file's name says; one where it does not."""
    match = _RANKS.search(table.path.stem)
    return float(match[1]) if match else 1.0
