"""What one model family is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GATED = ("swiglu",)
GATED_GELU = ("geglu",)
PLAIN = ("gelu", "relu", "relu2")

WINDOWS = "window patterns"
CHUNKS = "chunked attention"
EXPERTS = "a mixture of experts"
LATENT = "multi-head latent attention"
SPARSE = "sparse attention"
LINEAR = "linear attention"
STATE_SPACE = "state-space layers"
GATE = "an attention gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What the configs of one ``model_type`` leave unsaid; keys as in `sightline.loading.model_keys.ModelKeys`."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A key that governs others: they take its value (the opposite of it for ``no_...``) unless stated themselves."""
    needs: tuple[str, ...] = ()
    """Figures that a config must state besides those every family needs."""
    activations: tuple[str, ...] = ("gelu", "relu", "swiglu")
    features: frozenset[str] = frozenset()
    """What its layers may hold beyond full attention and a dense MLP, as `sightline.loading.spellings.FEATURES`
    names it."""
    interleaved: str = "sliding"
    """Mixer of the layers between those of full attention where ``full_attention_interval`` counts."""
    shared_is_dense: bool = False
    """The dense MLP runs beside the experts in each layer, so it is their shared expert."""
    low_rank_gates: bool = False
    """Linear attention has a decay for every key channel; it and the output gate pass through a head's width (Kimi)."""
    halved_intermediate: bool = False
    """``intermediate_size`` counts both input projections."""
