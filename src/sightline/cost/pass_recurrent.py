"""Prices of a pass's recurrent mixers: linear attention, state spaces, and the convolution before them."""

from collections.abc import Sequence

from sightline.cost.families import family_of
from sightline.cost.linear_attention import gated_delta_cost
from sightline.cost.linear_attention_constants import load_linear
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.pricing import stacked
from sightline.cost.ranks import Ranks
from sightline.cost.short_convolution import short_convolution_cost
from sightline.cost.state_space import state_space_cost
from sightline.program.inference import GatedDelta, ShortConvolution, StateSpaceScan


def price_gated_delta(operators: Sequence[GatedDelta], ranks: Ranks, axes: int) -> OperatorCost:
    """Gated delta rules of one phase."""
    first, device = operators[0], ranks.device
    names = ("sequences", "new_tokens", "key_heads", "value_heads", "key_dim", "value_dim")
    return gated_delta_cost(
        *(stacked(operators, name, axes) for name in names),
        decode=first.decode,
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        device=device,
        constants=load_linear(family_of(device, "linear"), "gated-delta")[0],
    )


def price_state_space(operators: Sequence[StateSpaceScan], ranks: Ranks, axes: int) -> OperatorCost:
    """Mamba-2 scans of one phase."""
    first, device = operators[0], ranks.device
    names = ("sequences", "new_tokens", "heads", "head_dim", "groups", "state")
    return state_space_cost(
        *(stacked(operators, name, axes) for name in names),
        decode=first.decode,
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        device=device,
        constants=load_linear(family_of(device, "linear"), "state-space")[0],
    )


def price_convolution(operators: Sequence[ShortConvolution], ranks: Ranks, axes: int) -> OperatorCost:
    """Short convolutions of one phase."""
    first, device = operators[0], ranks.device
    return short_convolution_cost(
        *(stacked(operators, name, axes) for name in ("sequences", "new_tokens", "channels", "width")),
        decode=first.decode,
        element_bytes=first.element_bytes,
        device=device,
        constants=load_linear(family_of(device, "linear"))[0],
    )
