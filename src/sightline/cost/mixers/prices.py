"""Prices of mixers beyond softmax attention, in passes of inference and of training alike.

Each function takes operators of one kind, phase and dtype, stacked over the ``axes`` of a mesh.
"""

from collections.abc import Sequence

from sightline.cost.alike import stacked
from sightline.cost.families import family_of
from sightline.cost.mixers.linear import gated_delta_cost, load_linear, short_convolution_cost
from sightline.cost.mixers.sparse import indexer_cost, load_sparse, sparse_attention_cost
from sightline.cost.mixers.state_space import state_space_cost
from sightline.cost.operator_cost import OperatorCost
from sightline.program.mixer_operators import GatedDelta, Indexer, SelectedAttention, ShortConvolution, StateSpaceScan
from sightline.scenario import Device


def price_gated_delta(operators: Sequence[GatedDelta], device: Device, axes: int) -> OperatorCost:
    """Gated delta rules."""
    first = operators[0]
    names = ("sequences", "new_tokens", "key_heads", "value_heads", "key_dim", "value_dim")
    return gated_delta_cost(
        *(stacked(operators, name, axes) for name in names),
        decode=first.decode,
        backward=stacked(operators, "backward", axes) > 0,
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        device=device,
        constants=load_linear(family_of(device, "linear"), "gated-delta")[0],
    )


def price_state_space(operators: Sequence[StateSpaceScan], device: Device, axes: int) -> OperatorCost:
    """Mamba-2 scans."""
    first = operators[0]
    names = ("sequences", "new_tokens", "heads", "head_dim", "groups", "state")
    return state_space_cost(
        *(stacked(operators, name, axes) for name in names),
        decode=first.decode,
        backward=stacked(operators, "backward", axes) > 0,
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        device=device,
        constants=load_linear(family_of(device, "linear"), "state-space")[0],
    )


def price_convolution(operators: Sequence[ShortConvolution], device: Device, axes: int) -> OperatorCost:
    """Short convolutions."""
    first = operators[0]
    return short_convolution_cost(
        *(stacked(operators, name, axes) for name in ("sequences", "new_tokens", "channels", "width")),
        decode=first.decode,
        backward=stacked(operators, "backward", axes) > 0,
        element_bytes=first.element_bytes,
        device=device,
        constants=load_linear(family_of(device, "linear"))[0],
    )


def price_indexer(operators: Sequence[Indexer], device: Device, axes: int) -> OperatorCost:
    """Scores of an indexer."""
    first = operators[0]
    names = ("sequences", "new_tokens", "context_tokens", "heads", "head_dim")
    return indexer_cost(
        *(stacked(operators, name, axes) for name in names),
        backward=stacked(operators, "backward", axes) > 0,
        dtype=first.dtype,
        key_bytes=first.key_bytes,
        device=device,
        constants=load_sparse(family_of(device, "sparse")),
    )


def price_selected(operators: Sequence[SelectedAttention], device: Device, axes: int) -> OperatorCost:
    """Attention over the tokens that an indexer chose."""
    first = operators[0]
    names = ("sequences", "new_tokens", "context_tokens", "selected_tokens", "heads", "key_dim", "value_dim")
    return sparse_attention_cost(
        *(stacked(operators, name, axes) for name in names),
        decode=first.decode,
        backward=stacked(operators, "backward", axes) > 0,
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        cache_bytes=first.cache_bytes,
        device=device,
        constants=load_sparse(family_of(device, "sparse")),
    )
