"""Which parts of the model a plan trains; the rest keeps its weights and needs no weight gradients."""

from dataclasses import dataclass

from sightline.scenario import Adapter, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """True for every part whose own weights are updated."""

    projections: bool
    """The matmul weights of the decoder layers."""
    rest: bool
    """Norms and biases."""
    embedding: bool
    head: bool
    quantization: str
    """Format in which the projections' weights are kept, or none."""
    adapter: Adapter | None


def trained_by(plan: Plan, *, tied: bool) -> Trained:
    """Return what ``plan`` trains.

    Without an adapter that is everything but quantized weights; with one nothing but the adapter and the modules it
    names. A head tied to the embedding is trained with it.
    """
    adapter = plan.adapter
    whole = adapter is None
    named = frozenset() if adapter is None else frozenset(adapter.also_trained)
    embedding = whole or "embedding" in named
    return Trained(
        projections=whole and plan.quantization == "none",
        rest=whole,
        embedding=embedding,
        head=whole or "head" in named or (tied and embedding),
        quantization=plan.quantization,
        adapter=adapter,
    )
