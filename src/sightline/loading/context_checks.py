"""What a sequence that is cut over devices rules out."""

from collections.abc import Iterator

from sightline.scenario import Model
from sightline.scenario.context_exchange import has_windows


def sequence_is_cut(sequence_length: int, context_parallel: int) -> Iterator[str]:
    """Context parallelism gives every rank an early and a late chunk of the sequence, so that masks even out."""
    if context_parallel > 1 and sequence_length % (2 * context_parallel):
        yield (
            f"workload.sequence_length is {sequence_length}; allowed: a multiple of 2 x plan.context_parallel = "
            f"{2 * context_parallel}"
        )


def heads_are_shared_out(
    heads: int, tensor_parallel: int, context_parallel: int, context_exchange: str
) -> Iterator[str]:
    """An all-to-all gives every rank whole query heads; key heads may go to several."""
    ranks = tensor_parallel * context_parallel
    if context_parallel > 1 and context_exchange == "all-to-all" and heads % ranks:
        yield (
            f"plan.context_exchange is all-to-all with plan.tensor_parallel {tensor_parallel} x plan.context_parallel "
            f"{context_parallel} = {ranks}; allowed: degrees that divide the model's {heads} attention heads, or ring, "
            "all-gather, mixed"
        )


def chunks_are_put_together(attention: str, context_parallel: int, context_exchange: str) -> Iterator[str]:
    """Partial results are joined by the sums that fused kernels return."""
    if context_parallel > 1 and attention == "eager" and context_exchange != "all-to-all":
        yield (
            f"plan.attention is eager with plan.context_parallel {context_parallel}, whose chunks only fused kernels can "
            "put together; allowed: flash, or plan.context_exchange all-to-all"
        )


def windows_are_not_sent_round(
    model: Model, sequence_length: int, context_parallel: int, context_exchange: str
) -> Iterator[str]:
    """A ring passes every key to every query."""
    if context_parallel > 1 and context_exchange in ("ring", "mixed") and has_windows(model, sequence_length):
        yield (
            f"plan.context_exchange is {context_exchange}; {model.name} has layers that see a window of {model.window} "
            "tokens, for which keys do not go round a ring; allowed: all-gather, all-to-all"
        )
