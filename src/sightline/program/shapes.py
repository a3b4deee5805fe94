"""Sizes of one pass on one device after tensor and sequence parallelism: what training and inference have in common.

Legend, as in Korthikanti 2022 (arXiv 2205.05198): ``b`` sequences, ``h`` hidden size, ``t`` tensor-parallel ranks, ``e``
expert-parallel ranks.
"""

from dataclasses import dataclass

from sightline.quantities import Number, larger
from sightline.scenario import Heads, LayerKind, Model

ELEMENT_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0}
"""Bytes of an activation by compute dtype."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shapes:
    """The sizes every block is written with."""

    model: Model
    dtype: str
    """Compute type of everything that is not in fewer bits."""
    element_bytes: float
    tokens: Number
    """Tokens that pass through the layers."""
    t: Number
    e: Number
    skew: Number
    """Lasting unevenness of the experts' load, as the relative deviation of a rank's."""
    shape: Heads
    """Head shape of the layer kind that is written out."""

    @property
    def h(self) -> float:
        """Hidden size."""
        return float(self.model.hidden_size)

    @property
    def heads(self) -> Number:
        """Query heads on one device."""
        return self.shape.heads / self.t

    @property
    def kv_heads(self) -> Number:
        """Key/value heads on one device; replicated when there are fewer heads than devices."""
        return larger(self.shape.kv_heads / self.t, 1.0)

    @property
    def query_width(self) -> Number:
        """Elements of the queries of a token on one device."""
        return self.heads * self.shape.head_dim

    @property
    def key_width(self) -> Number:
        """Elements of the keys of a token on one device."""
        return self.kv_heads * self.shape.head_dim

    @property
    def value_width(self) -> Number:
        """Elements of the values of a token on one device."""
        return self.kv_heads * self.shape.value_dim

    @property
    def context_width(self) -> Number:
        """Elements that attention hands to the output projection, per token on one device."""
        return self.heads * self.shape.value_dim

    @property
    def hidden_bytes(self) -> Number:
        """Bytes of one hidden-wide activation of all tokens."""
        return self.element_bytes * self.tokens * self.model.hidden_size


def core_heads(model: Model, kind: LayerKind) -> Heads:
    """Return the head shape that the attention core works with; latent attention is expanded to full heads."""
    if kind.mixer not in ("latent", "sparse") or model.latent is None:
        return model.heads_of(kind)
    latent = model.latent
    return Heads(
        heads=model.heads, kv_heads=model.heads, head_dim=latent.head_dim, value_head_dim=latent.value_head_dim
    )
