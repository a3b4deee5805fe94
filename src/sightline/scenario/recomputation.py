"""Which activations are computed again in the backward pass instead of kept, and in which layers."""

from dataclasses import dataclass

from sightline.quantities import Number

MODULES = (
    "core_attention",
    "qkv",
    "attention",
    "latent_up",
    "mlp",
    "activation",
    "layernorm",
    "moe",
    "moe_activation",
    "shared_experts",
    "per_op",
)
"""What may run again on its own: the attention core; the projections before it; both; the up projections of latent
attention; the dense MLP; its activation; norms; experts with their router and exchange; the experts' activation; shared
experts; everything but attention and every other matmul (torchtitan's selective checkpointing)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputation:
    """Recomputation of some modules, or of whole layers, in some layers of every pipeline stage."""

    modules: frozenset[str] = frozenset()
    """Of ``MODULES``; none means whole layers."""
    layers: int | None = None
    """So many layers of a pipeline stage recompute, the others keep everything; None: all of them."""
    every: int = 1
    """Every so many layers one recomputes."""
    together: int = 1
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
        counts = {"layers": self.layers, "every": self.every, "together": self.together}
        usual = {"layers": None, "every": 1, "together": 1}
        modules: object = [m for m in MODULES if m in self.modules] or "full"
        return {"modules": modules, **{k: v for k, v in counts.items() if v != usual[k]}}

    def __str__(self) -> str:
        """In a few words."""
        counts = {"layers": f"{self.layers} layers a stage", "every": f"every {self.every} layers"}
        counts["together"] = f"{self.together} layers together"
        said = [m for m in MODULES if m in self.modules] or ["full"]
        return ", ".join([" and ".join(said), *(counts[word] for word in self.words() if word in counts)])
