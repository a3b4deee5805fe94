"""How an engine cuts waiting prompts into passes: chunks of a token budget, and micro-batches for pipeline stages."""

from dataclasses import dataclass

import numpy as np

from sightline.quantities import Count, Number, either, larger, rounded_up, smaller
from sightline.scenario import GenerationPlan, GenerationScenario

TOGETHER = 0.25
"""Share of a full pass in which prompts of equal length come: successors of sequences that ended in one step meet the
next step in part, the rest the one after it, and groups part and join again. Fitted to steady loops of TensorRT-LLM."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunks:
    """How prompts are cut into passes."""

    prompts: Number
    """Prompts that wait together."""
    sequences: Number
    """Prompts that a pass takes at once."""
    new_tokens: Number
    """Tokens of each that it takes."""
    context_tokens: Number
    """Mean tokens of each that were processed before."""
    passes: Number = 1.0
    """Passes until all of them are processed."""
    micro_batches: Number
    """Such passes that fill the pipeline one after the other."""


def cut(scenario: GenerationScenario, sequences: Number) -> Chunks:
    """Return how a rank's prompts are cut: whole where the token budget holds them, else in equal chunks.

    In a steady loop prompts arrive as sequences end: of each step's, at least one waits. Sequences of equal length that
    were prefilled in one pass end in one step, so that their successors come in groups (``TOGETHER``).
    """
    plan, work = scenario.plan, scenario.workload
    budget = plan.max_batched_tokens
    reused = work.prefix_tokens * 1.0 if plan.prefix_cache else 0.0
    new = larger(work.prompt_tokens - reused, 1.0)
    arriving: Number = sequences / work.output_tokens if work.continuous else sequences
    if work.continuous and work.equal_lengths and budget is not None:
        arriving = smaller(sequences, larger(np.floor(budget / new * TOGETHER), arriving))
    parts = micro_batches(plan, arriving, new)
    waiting = larger(arriving / parts, 1.0)
    if budget is None:
        return Chunks(prompts=waiting, sequences=waiting, new_tokens=new, context_tokens=reused, micro_batches=parts)
    pieces = rounded_up(new / budget) if plan.chunked_prefill else 1.0
    piece = new / pieces
    together = smaller(larger(budget // piece, 1.0), waiting)
    rounds = rounded_up(waiting / together)
    return Chunks(
        prompts=waiting,
        sequences=waiting / rounds,
        new_tokens=piece,
        context_tokens=reused + (new - piece) / 2.0,
        passes=pieces * rounds,
        micro_batches=parts,
    )


def micro_batches(plan: GenerationPlan, sequences: Number, new_tokens: Number) -> Number:
    """Parts that a rank's ``sequences`` of ``new_tokens`` each are cut into; 1 where the engine cuts nothing.

    As many as there are stages, or by the engine's rule of ``micro_batch_tokens``.
    """
    p, b, scheduling = plan.pipeline_parallel, larger(sequences, 1.0), plan.engine.scheduling
    if not scheduling.pipeline_micro_batches:
        return 1.0
    if scheduling.micro_batch_tokens is None:
        return smaller(p, b) * 1.0
    return either(p == 1, 1.0, _halved(b, p, new_tokens, scheduling.micro_batch_tokens))


def _halved(b: Number, p: Count, q: Number, most: float) -> Number:
    """Stages share a batch that they divide; it is then halved as long as it is even and has too many tokens."""
    whole = np.ceil(b).astype(int)
    part = np.where(whole % p == 0, whole // p, whole)
    even = np.log2(part & -part)  # how often it can be halved: its lowest set bit
    needed = np.ceil(np.log2(np.maximum(part * q / most, 1.0)))
    parts: Number = whole / part * 2.0 ** np.minimum(even, needed)
    return parts
