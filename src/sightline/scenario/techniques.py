"""Techniques of a training plan that are more than a word: adapters and the recomputation of activations."""

from collections.abc import Mapping
from typing import Annotated, Literal

from sightline.content import description
from sightline.quantities import COUNT, Count, Number
from sightline.validators import Key, anything, choice, flag, fraction, quantity, unusual, whole

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


@description
class Adapter:
    """Trained low-rank updates ``alpha / rank * B A`` of frozen projections."""

    kind: Annotated[AdapterKind, Key(choice("lora", "qlora", "none"), needs="lora, qlora")] = "lora"
    """``qlora`` keeps the frozen weights in 4 bits unless the plan names another format."""
    rank: Annotated[Count, whole(1, 10**5)] = 64
    """Rank of the update."""
    alpha: Annotated[float, quantity(COUNT)] = 16.0
    """Scale of the update; costs nothing."""
    dropout: Annotated[float, fraction] = 0.0
    """Share of an adapter's inputs set to zero; above 0 it adds kernels and masks."""
    targets: Annotated[tuple[str, ...] | Literal["all-linear"], anything] = "all-linear"
    """Projections with an adapter: all-linear, or a list of query, key, value, output, gate, up, down and qkv."""
    also_trained: Annotated[tuple[AlsoTrained, ...], anything] = ()
    """Whole modules that are trained in addition to the adapters, with full-precision states."""
    upcast: Annotated[bool | None, flag] = None
    """Norms are fp32 beside weights in nf4, nf4-single or int8, and with them what passes between products
    (LLaMA-Factory's ``upcast_layernorm``); default: as trl does, true with transformers before 5.0."""

    def words(self) -> tuple[str, ...]:
        """What a framework must offer for it, by the words of its ``offers``."""
        return (self.kind, *(("upcast",) if self.upcast else ()))

    def projections(self, *, gated: bool) -> tuple[str, ...]:
        """The projections that get an adapter in a model with a gated MLP or without."""
        if self.targets == ALL_LINEAR:
            return tuple(p for p in PROJECTIONS if gated or p != "gate")
        return tuple(self.targets)


MODULES = (
    *("core_attention", "qkv", "attention", "latent_up", "mlp", "activation", "layernorm"),
    *("moe", "moe_activation", "shared_experts", "per_op"),
)
"""What may run again on its own: the attention core; the projections before it; both; the up projections of latent
attention; the dense MLP; its activation; norms; experts with their router and exchange; the experts' activation; shared
experts; everything but attention and every other matmul (torchtitan's selective checkpointing)."""


@description
class Recomputation:
    """Recomputation of some modules, or of whole layers, in some layers of every pipeline stage."""

    modules: Annotated[frozenset[str], anything] = frozenset()
    """Any of core_attention, qkv, attention, latent_up, mlp, activation, layernorm, moe, moe_activation,
    shared_experts and per_op; none means whole layers."""
    layers: Annotated[int | None, whole(0, 10**5)] = None
    """Layers of each pipeline stage that recompute; the others keep everything. Default: all of them."""
    every: Annotated[int, whole(1, 10**5)] = 1
    """Every so many layers one recomputes."""
    together: Annotated[int, whole(1, 10**5)] = 1
    """Whole layers that run again one after the other from the input of the first, the only one that is kept."""

    def share_of(self, layers: int, pipeline_parallel: Number) -> Number:
        """Share of a model's layers that recompute; left out: stages of unequal numbers of layers."""
        share = 1.0 / self.every
        if self.layers is None:
            return share
        of_stage = self.layers * pipeline_parallel / layers
        return of_stage * (of_stage < 1.0) + 1.0 * (of_stage >= 1.0)

    def words(self) -> tuple[str, ...]:
        """What a framework must offer for it, by the words of its ``offers``."""
        counts = {"layers": self.layers is not None, "every": self.every > 1, "together": self.together > 1}
        return (*(sorted(self.modules) or ["full"]), *(word for word, used in counts.items() if used))

    def stated(self) -> dict[str, object]:
        """The keys of a scenario file."""
        return {"modules": [m for m in MODULES if m in self.modules] or "full"} | {
            key: value for key, value in unusual(self).items() if key != "modules"
        }

    def __str__(self) -> str:
        """In a few words."""
        counts = {"layers": f"{self.layers} layers a stage", "every": f"every {self.every} layers"}
        counts["together"] = f"{self.together} layers together"
        said = [m for m in MODULES if m in self.modules] or ["full"]
        return ", ".join([" and ".join(said), *(counts[word] for word in self.words() if word in counts)])
