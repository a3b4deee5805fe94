"""What a model keeps per sequence: keys and values, latents, recurrent states."""

import numpy as np

from sightline.program.formats import Formats
from sightline.quantities import Number
from sightline.scenario import LayerKind, Model

STATE_BYTES = 4.0
"""Recurrent states are kept in fp32."""


def cached_bytes(model: Model, formats: Formats, tokens: Number, tensor_parallel: Number = 1.0) -> Number:
    """Return the bytes that one sequence of ``tokens`` keeps on one device, all layers together.

    Heads are split over ``tensor_parallel`` ranks; a latent is whole on each of them. Left out: partly filled blocks.
    """
    return sum(kind.count * _layer_bytes(model, kind, formats, tokens, tensor_parallel) for kind in model.kinds)


def _layer_bytes(model: Model, kind: LayerKind, formats: Formats, tokens: Number, t: Number) -> Number:
    index = tokens * model.sparse.head_dim if kind.indexed and model.sparse is not None else 0.0
    match kind.mixer:
        case "none":
            return 0.0
        case "linear" if model.linear is not None:
            return STATE_BYTES * model.linear.state_elements / t
        case "state-space" if model.state_space is not None:
            return STATE_BYTES * model.state_space.state_elements / t
        case "compressed":
            folded = tokens / kind.compression if kind.compression > 1 else 0.0
            return formats.cache_bytes * model.head_dim * (np.minimum(tokens, model.window or 0) + folded) + index
        case "latent" | "sparse" if model.latent is not None:
            return formats.cache_bytes * tokens * (model.latent.kv_rank + model.latent.rope_head_dim) + index
    heads = model.heads_of(kind)
    kept = np.minimum(tokens, model.window) if kind.mixer in ("sliding", "chunked") and model.window else tokens
    width = np.maximum(heads.kv_heads / t, 1.0) * (heads.head_dim + heads.value_dim)
    return formats.cache_bytes * kept * width + index
