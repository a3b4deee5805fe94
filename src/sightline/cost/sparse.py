"""What DeepSeek V3.2's sparse attention costs: an indexer scores every cached token, attention reads the chosen ones.

Source of the operators: DeepSeek-V3.2-Exp, technical report; kernels: DeepGEMM's fp8 MQA logits, FlashMLA's sparse
ones.
"""

from dataclasses import dataclass
from functools import cache

from sightline.catalog import entry
from sightline.cost.device_model import DeviceModel
from sightline.cost.families import Stated, family_of
from sightline.cost.operator_cost import Alike, OperatorCost, Ranks
from sightline.program.mixer_operators import Indexer, SelectedAttention
from sightline.quantities import larger, smaller
from sightline.scenario import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseConstants(Stated):
    """One set per device family."""

    index_peak_fraction: float
    """Share of the datasheet's FLOP/s that the indexer's products reach."""
    index_memory_fraction: float
    """Share of the memory bandwidth at which decoding reads the indexer's keys."""
    prefill_peak_fraction: float
    """Share of the FLOP/s that attention over selected tokens reaches over many queries."""
    decode_peak_fraction: float
    """The same over few queries, whose cached tokens are converted from fp8."""
    latency_s: float
    """Fixed time of a kernel."""


@cache
def load_sparse(calibration: str) -> SparseConstants:
    """The constants of sparse attention in the catalog's calibration of that name."""
    return SparseConstants.from_mapping(entry("calibrations", f"{calibration}/sparse")["constants"])


SCORE_BYTES = 4.0
OVERLAP = 4.0
"""Exponent of the norm in which arithmetic and traffic, which overlap, add up."""


def indexer_cost(x: Indexer, device: Device, constants: SparseConstants) -> OperatorCost:
    """Seconds to score the ``context_tokens`` (the new ones included) that each new token sees, summed over ``heads``.

    The compute leg is ``2 heads head_dim`` FLOPs per pair of tokens; the memory leg reads the indexer's keys, one head
    for all, with ``key_bytes`` per element, and the queries, and writes an fp32 score per pair. ``backward`` makes the
    gradients of queries and keys from as many selected tokens, whose scores it makes again: three products. Left out:
    the choice of the best scores, an element-wise kernel.
    """
    c = constants
    compute_s, memory_s = x.flops / device.peak_flops[x.dtype], x.bytes / device.memory_bandwidth
    legs = (compute_s / c.index_peak_fraction) ** OVERLAP + (memory_s / c.index_memory_fraction) ** OVERLAP
    return OperatorCost.on_roofline(legs ** (1 / OVERLAP) + c.latency_s, compute_s, memory_s)


def sparse_attention_cost(x: SelectedAttention, device: Device, constants: SparseConstants) -> OperatorCost:
    """Seconds of latent attention of each new token over the ``selected_tokens`` that its indexer chose.

    The compute leg is ``2 heads (key_dim + value_dim)`` FLOPs per query and token that it reads; the memory leg moves
    queries and outputs and every cached latent that any query may read, once. The kernel works on all slots, also those
    that a short context leaves empty, and gathers the latents of many queries from L2. A ``backward`` pass has five
    products for two (the scores again) and adds every query's share of the latents' gradients to fp32 sums in L2.
    """
    c, peak = constants, device.peak_flops[x.dtype]
    compute_s, memory_s = x.flops / peak, x.bytes / device.memory_bandwidth
    slots = x.selected_tokens / smaller(x.selected_tokens, x.context_tokens)
    kernel_s = compute_s * slots / (c.decode_peak_fraction if x.decode else c.prefill_peak_fraction)
    summed = 2 * SCORE_BYTES * x.key_dim if x.backward else 0.0
    gathered = x.sequences * x.new_tokens * x.selected_tokens * (x.key_dim * x.cache_bytes + summed)
    kernel_s = larger(kernel_s, gathered / device.l2_bandwidth)
    time_s = larger(kernel_s, memory_s / c.index_memory_fraction) + c.latency_s
    return OperatorCost.on_roofline(time_s, compute_s, memory_s)


def _of_family(model: DeviceModel) -> SparseConstants:
    return load_sparse(family_of(model.device, "sparse"))


def price_indexer(alike: Alike, on: Ranks) -> OperatorCost:
    """Scores of an indexer."""
    return indexer_cost(alike.together, on.device_model.device, on.device_model.constants(_of_family))


def price_selected(alike: Alike, on: Ranks) -> OperatorCost:
    """Attention over the tokens that an indexer chose."""
    return sparse_attention_cost(alike.together, on.device_model.device, on.device_model.constants(_of_family))
