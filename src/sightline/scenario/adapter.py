"""Low-rank adapters: small trained matrices next to frozen projections (arXiv 2106.09685)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sightline.content import fields_of
from sightline.quantities import Count

AdapterKind = Literal["lora", "qlora"]
AlsoTrained = Literal["embedding", "head"]

PROJECTIONS = ("query", "key", "value", "output", "gate", "up", "down")
"""The linear layers of a decoder layer, one by one."""

JOINED = "qkv"
"""Query, key and value projection as the one matrix that some models keep them in, with one adapter for all three."""

ALL_LINEAR = "all-linear"

MODULE_NAMES: Mapping[str, str] = {
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "query_key_value": JOINED,
    "c_attn": JOINED,
    "Wqkv": JOINED,
    "qkv_proj": JOINED,
    "attn": JOINED,
    "o_proj": "output",
    "out_proj": "output",
    "dense": "output",
    "gate_proj": "gate",
    "w2": "gate",
    "up_proj": "up",
    "w1": "up",
    "fc1": "up",
    "dense_h_to_4h": "up",
    "c_fc": "up",
    "down_proj": "down",
    "fc2": "down",
    "dense_4h_to_h": "down",
}
"""What checkpoints call these projections; a name with several meanings is left out (GPT-2's ``c_proj``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Trained low-rank updates ``alpha / rank * B A`` of frozen projections."""

    kind: AdapterKind = "lora"
    """``qlora`` keeps the frozen weights in 4 bits unless the plan names another format."""
    rank: Count = 64
    alpha: float = 16.0
    """Scale of the update; costs nothing."""
    dropout: float = 0.0
    """Share of an adapter's inputs set to zero; above 0 it adds kernels and masks."""
    targets: tuple[str, ...] | Literal["all-linear"] = "all-linear"
    """Projections with an adapter, by the words of ``PROJECTIONS`` (or ``JOINED``)."""
    also_trained: tuple[AlsoTrained, ...] = ()
    """Whole modules that are trained in addition to the adapters, with full-precision states."""

    def projections(self, *, gated: bool) -> tuple[str, ...]:
        """The projections that get an adapter in a model with a gated MLP or without."""
        if self.targets == ALL_LINEAR:
            return tuple(p for p in PROJECTIONS if gated or p != "gate")
        return tuple(self.targets)

    def stated(self) -> dict[str, object]:
        """The keys of a scenario file."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields_of(self).items()}
