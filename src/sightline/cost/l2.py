"""What crosses a device's L2 cache, which all traffic of the memory passes and operands cross again for every block.

A third leg of the roofline besides arithmetic and memory. It says which level binds an operator; in the ideal view it
also bounds the time. Calibrated kernels have what L2 costs them in their constants. Like the other legs it is the least
that a kernel may move: ``SHARING_UNITS`` compute units load an operand once for all of them, as thread-block clusters
do since Hopper, and hold the results in their registers. Left out: what L2 saves the memory from kernel to kernel, and
memory inside of the compute units, which would let a block be larger.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from sightline.cost.device_model import DeviceModel
from sightline.cost.matmul import RESIDENT_ELEMENTS
from sightline.cost.prices import REGISTRY, OperatorCost, function
from sightline.program import (
    CachedAttention,
    FlashAttention,
    GroupedMatmul,
    Matmul,
    Operator,
)
from sightline.quantities import Number, larger, plain, smaller

if TYPE_CHECKING:
    from sightline.program.mixer_operators import SelectedAttention

SHARING_UNITS = 16
"""Compute units that load an operand together: the most blocks of a cluster on H100 (CUDA programming guide, 16 where
a kernel asks for more than the portable 8)."""
BLOCK_ELEMENTS = float(SHARING_UNITS * RESIDENT_ELEMENTS)
"""Results that they hold at a time, in fp32."""
BLOCK_SIDE = BLOCK_ELEMENTS**0.5
SUM_BYTES = 4.0
"""Gradients of cached tokens are added up in fp32."""


def least_s(
    op: Operator, price: OperatorCost, model: DeviceModel, *, peak_share: Number = 1.0, bandwidth_share: Number = 1.0
) -> Number:
    """Return the seconds of the largest of an operator's three legs: arithmetic, bytes of the memory, bytes across L2.

    ``peak_share`` and ``bandwidth_share`` are what is reached of the peak and of both bandwidths.
    """
    return larger(price.compute_s / peak_share, larger(price.memory_s, l2_s(op, model)) / bandwidth_share)


def l2_s(op: Operator, model: DeviceModel) -> Number:
    """Return the seconds in which an operator's bytes cross L2 at the device's bandwidth.

    0 for collectives, which are bound by links, and on processors, whose caches are in their constants.
    """
    return l2_bytes(op) / model.device.l2_bandwidth if model.asynchronous else 0.0


def l2_bytes(op: Operator) -> Number:
    """Return the least bytes that cross L2 in one execution: those of the memory, and operands that are read again."""
    kind: Any = type(op)
    return _crossing(kind)(op)


@cache
def _crossing(kind: Any) -> Callable[[Any], Number]:
    """The function of a kind of operators, from its entry."""
    bytes_of: Callable[[Any], Number] = function(REGISTRY[kind.__name__].l2)
    return bytes_of


def _product_bytes(m: Number, n: Number, k: Number, input_bytes: Number, weight_bytes: Number) -> Number:
    """Bytes of the operands of one product: ``m n k (input / columns + weight / rows)`` of a block of results.

    A block is square where the product is large; of few rows it has the more columns, so that a product of one row
    reads both operands once.
    """
    rows = smaller(m, larger(BLOCK_SIDE, BLOCK_ELEMENTS / n))
    columns = smaller(n, larger(BLOCK_SIDE, BLOCK_ELEMENTS / m))
    return m * n * k * (input_bytes / columns + weight_bytes / rows)


def matmul_bytes(op: Matmul) -> Number:
    """Return the bytes of both operands, read again for every block of results, and of the product."""
    weight_bytes = op.element_bytes if op.weight_bytes is None else op.weight_bytes
    m, n, k = plain(op.m), plain(op.n), plain(op.k)
    return op.batch * (_product_bytes(m, n, k, op.element_bytes, weight_bytes) + op.output_bytes * m * n)


def grouped_bytes(op: GroupedMatmul) -> Number:
    """Return the same of each active expert's rows times its matrix."""
    rows = larger(op.rows + op.empty_rows, 1e-9)
    active = smaller(op.active * 1.0, rows)
    each = _product_bytes(rows / active, plain(op.n), plain(op.k), op.element_bytes, op.weight_bytes)
    return active * each + op.output_bytes * rows * op.n


def _read_again(pairs: Number, keys: Number, widths: Number) -> Number:
    """How often keys and values are read: once for every block of queries, whose outputs take half of the registers."""
    return larger(pairs / keys * widths / (BLOCK_ELEMENTS / 2.0), 1.0)


def _seen(op: FlashAttention | CachedAttention) -> Number:
    """Mean keys that a query sees."""
    context, query = plain(op.context_tokens), plain(op.query_tokens)
    return context - op.causal * (smaller(query, context) - 1.0) / 2.0


def flash_bytes(op: FlashAttention) -> Number:
    """Return the bytes of all, and of keys and values again for every block of queries.

    Heads that share keys and values read them together; a backward pass reads, and adds to, twice as much.
    """
    pairs = op.query_tokens * _seen(op) * op.heads / op.kv_heads
    keys = op.batch * op.context_tokens * op.kv_heads * (op.head_dim + op.value_dim) * op.element_bytes
    again = _read_again(pairs, plain(op.context_tokens), op.head_dim + op.value_dim) - 1.0
    return op.bytes + (2.0 if op.backward else 1.0) * again * keys


def cached_bytes(op: CachedAttention) -> Number:
    """Return the same of cached keys and values.

    A step of decoding reads them once, or once for each head that is apart.
    """
    seen = _seen(op) if op.window is None else smaller(_seen(op), op.window)
    group = op.heads / op.kv_heads
    read = _read_again(op.query_tokens * seen * group, plain(op.reach), op.head_dim + op.value_dim)
    if op.heads_apart:
        read = larger(read, group)
    return op.bytes + (read - 1.0) * op.batch * op.reach * op.kv_heads * op.width * op.cache_bytes


def selected_bytes(op: "SelectedAttention") -> Number:
    """Return the bytes of the tokens that every query selected, which its heads share, at least those of the memory.

    A backward pass adds to the tokens' gradients.
    """
    summed = 2.0 * SUM_BYTES * op.key_dim if op.backward else 0.0
    chosen = smaller(op.context_tokens, op.selected_tokens)
    gathered = op.sequences * op.new_tokens * chosen * (op.key_dim * op.cache_bytes + summed)
    return larger(op.bytes, gathered)


def bytes_once(op: Operator) -> Number:
    """Return the bytes of the memory, which cross once: element-wise and recurrent kernels, indexers."""
    return op.bytes


def none(_: Operator) -> Number:
    """Return 0: links bind a collective."""
    return 0.0
