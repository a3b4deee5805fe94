"""Readers of alibaba/InferSim's tables: microseconds; files' names or ``--shape`` say the heads of its attention."""

import re

import polars as pl

from sightline.calibration.readers.raw_table import CACHES, MATMULS, PHASES, RawTable, attention_samples, reads
from sightline.errors import InputError

_SHAPE = re.compile(r"(?:(mha|mla)[-_])?(?:.*_)?(\d+)-(\d+)-(\d+)$")
_DEVICE = re.compile(r"(?:decode|prefill)_([a-z]+\d+)_")
_SPARSE = "dsa_"
_SPARSE_KERNEL = re.compile(r"dsa_(decode|prefill)_.*_(logits|attn)-")


@reads("InferSim gemm", "m n k latency_us", "matmul")
def matmul(table: RawTable) -> pl.DataFrame:
    """Gemm tables: DeepGEMM's products with fp8 blocks, unless a ``dtype`` column says otherwise."""
    return table.samples(
        kernel=table.words("dtype", MATMULS) if "dtype" in table.columns else "fp8-block",
        **table.sizes(m="m", n="n", k="k"),
        seconds=table.times("latency_us", 1e-6),
    )


@reads(
    "InferSim grouped gemm",
    "num_local_experts tokens_per_expert hidden_size intermediate_size up_proj_us up_mfu",
    "grouped",
)
def grouped(table: RawTable) -> pl.DataFrame:
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


@reads("InferSim decoding", "dtype kv_dtype batch_size kv_len latency_us", *PHASES[1:])
def decode(table: RawTable) -> pl.DataFrame:
    """Tables mha and mla decoding: a step against ``kv_len`` tokens."""
    return attention_samples(
        table,
        kernel=table.words("kv_dtype", CACHES),
        **_shape(table, decoding=True),
        **table.sizes(batch="batch_size", context_tokens="kv_len"),
        query_tokens=1.0,
        seconds=table.times("latency_us", 1e-6),
        **_device(table),
    )


@reads("InferSim prefill", "dtype seq_len latency_us", PHASES[0])
def prefill(table: RawTable) -> pl.DataFrame:
    """Tables mha and mla prefill: one whole prompt; multi-latent keys are expanded."""
    return attention_samples(
        table,
        **_shape(table, decoding=False),
        **table.sizes(query_tokens="seq_len", context_tokens="seq_len"),
        seconds=table.times("latency_us", 1e-6),
        **_device(table),
    )


def _device(table: RawTable) -> dict[str, pl.Series | str]:
    """The device that the file's name says where no column does."""
    match = _DEVICE.search(table.path.stem)
    return {} if "device" in table.columns or match is None else {"device": match[1]}


def _shape(table: RawTable, *, decoding: bool) -> dict[str, float | bool]:
    """Heads, heads of keys and values, width of key and of value, and whether the cache is a latent.

    ``mha`` 32-8-128: heads, heads of keys and values, dimension. ``mla`` 128-512-64: heads, width of latent or value,
    width of the rotated part of the key.
    """
    stem = table.path.stem
    said = table.shape or stem
    match = _SHAPE.search(said)
    if match is None or (table.shape and match.start() != 0):
        raise InputError(
            f"'{table.path}' does not say its heads' shape; --shape does: HEADS-KV_HEADS-HEAD_DIM such as 32-8-128, or "
            f"mla-HEADS-VALUE-ROTATED such as mla-128-512-64{f', not {table.shape}' if table.shape else ''}"
        )
    if stem.startswith(_SPARSE) and not table.shape:
        raise InputError(f"'{table.path}' is of sparse attention, whose constants are not fitted from tables yet")
    heads, second, third = (float(number) for number in match.groups()[1:])
    if min(heads, second, third) < 1:
        raise InputError(f"'{table.path}': the shape {said} has a part of 0; heads and dimensions are 1 or more")
    named = ("heads", "kv_heads", "head_dim", "value_dim", "latent")
    if (match[1] or ("mla" if "mla_" in stem and not table.shape else "mha")) == "mla":
        shape = (heads, 1.0 if decoding else heads, second + third, second, decoding)
    else:
        shape = (heads, second, third, third, False)
    return dict(zip(named, shape, strict=True))


@reads("InferSim gated delta decoding", "batchsize conv gdn_update", "linear")
@reads("InferSim gated delta prefill", "seq_len conv kkt tril wu chunk_gdn chunk_o", "linear")
def gated_delta(table: RawTable) -> pl.DataFrame:
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


@reads("InferSim decoding", "dtype kv_dtype batch_size kv_len latency_us", "sparse")
@reads("InferSim sparse attention", "s_kv latency_us", "sparse")
def sparse(table: RawTable) -> pl.DataFrame:
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
