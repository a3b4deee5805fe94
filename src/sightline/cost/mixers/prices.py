"""Prices of mixers beyond softmax attention, in passes of inference and of training alike."""

from typing import Any

from sightline.cost.device_model import DeviceModel
from sightline.cost.families import family_of
from sightline.cost.mixers.recurrent import (
    LinearConstants,
    gated_delta_cost,
    load_linear,
    short_convolution_cost,
    state_space_cost,
)
from sightline.cost.mixers.sparse import SparseConstants, indexer_cost, load_sparse, sparse_attention_cost
from sightline.cost.operator_cost import Alike, OperatorCost
from sightline.cost.ranks import Ranks


def _linear(model: DeviceModel, mixer: str) -> LinearConstants:
    return load_linear(family_of(model.device, "linear"), mixer)[0]


def _sparse(model: DeviceModel) -> SparseConstants:
    return load_sparse(family_of(model.device, "sparse"))


def _recurrent(alike: Alike, on: Ranks, mixer: str) -> dict[str, Any]:
    """What all mixers with a state of fixed size are asked with."""
    return {
        "decode": alike.first.decode,
        "backward": alike.any("backward"),
        "element_bytes": alike.first.element_bytes,
        "device": on.device_model.device,
        "constants": on.device_model.constants(_linear, mixer),
    }


def price_gated_delta(alike: Alike, on: Ranks) -> OperatorCost:
    """Gated delta rules."""
    names = ("sequences", "new_tokens", "key_heads", "value_heads", "key_dim", "value_dim")
    common = _recurrent(alike, on, "gated-delta")
    return gated_delta_cost(*alike.stacked(*names), dtype=alike.first.dtype, **common)


def price_state_space(alike: Alike, on: Ranks) -> OperatorCost:
    """Mamba-2 scans."""
    names = ("sequences", "new_tokens", "heads", "head_dim", "groups", "state")
    common = _recurrent(alike, on, "state-space")
    return state_space_cost(*alike.stacked(*names), dtype=alike.first.dtype, **common)


def price_convolution(alike: Alike, on: Ranks) -> OperatorCost:
    """Short convolutions."""
    common = _recurrent(alike, on, "gated-delta")
    return short_convolution_cost(*alike.stacked("sequences", "new_tokens", "channels", "width"), **common)


def price_indexer(alike: Alike, on: Ranks) -> OperatorCost:
    """Scores of an indexer."""
    first, model = alike.first, on.device_model
    return indexer_cost(
        *alike.stacked("sequences", "new_tokens", "context_tokens", "heads", "head_dim"),
        backward=alike.any("backward"),
        dtype=first.dtype,
        key_bytes=first.key_bytes,
        device=model.device,
        constants=model.constants(_sparse),
    )


def price_selected(alike: Alike, on: Ranks) -> OperatorCost:
    """Attention over the tokens that an indexer chose."""
    first, model = alike.first, on.device_model
    names = ("sequences", "new_tokens", "context_tokens", "selected_tokens", "heads", "key_dim", "value_dim")
    return sparse_attention_cost(
        *alike.stacked(*names),
        decode=first.decode,
        backward=alike.any("backward"),
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        cache_bytes=first.cache_bytes,
        device=model.device,
        constants=model.constants(_sparse),
    )
