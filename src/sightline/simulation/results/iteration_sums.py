"""How a run's iterations spend their time: sums over them, which add up piece by piece."""

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from sightline.simulation.outcome import Iterations, Outcome, PoolLimits

FULL: Final = 0.95
"""Share of the KV cache from which it counts as full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSums:
    """Sums over iterations of one kind."""

    iterations: int = 0
    seconds: float = 0.0
    prompt_tokens: int = 0
    decodes: int = 0
    context_tokens: float = 0.0
    """Tokens in use per running sequence, summed over iterations."""

    def __add__(self, other: "PassSums") -> "PassSums":
        """The sums of both."""
        return PassSums(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(PassSums)})


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationSums:
    """Sums over the iterations of equal replicas, or of all."""

    with_prompts: PassSums = PassSums()
    without: PassSums = PassSums()
    waiting_s: float = 0.0
    """With requests waiting after scheduling."""
    cache_full_s: float = 0.0
    """Of these seconds: running requests hold the KV cache."""
    sequences_full_s: float = 0.0
    """Of these seconds: as many requests run as may."""
    budget_full_s: float = 0.0
    """Of these seconds: the iteration has as many tokens as it may."""
    kv_token_s: float = 0.0
    """Tokens of the cache in use, times seconds."""
    most_kv_tokens: int = 0

    @property
    def seconds(self) -> float:
        """Seconds with an iteration under way."""
        return self.with_prompts.seconds + self.without.seconds

    @property
    def iterations(self) -> int:
        """How many there were."""
        return self.with_prompts.iterations + self.without.iterations

    def __add__(self, other: "IterationSums") -> "IterationSums":
        """The sums of both."""
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(IterationSums)}
        return IterationSums(**sums | {"most_kv_tokens": max(self.most_kv_tokens, other.most_kv_tokens)})


def iteration_sums_of(outcome: Outcome) -> tuple[IterationSums, ...]:
    """Return the sums over the iterations of each pool of replicas."""
    rows, pools = outcome.iterations, outcome.pools
    if len(pools) == 1 or not rows.start_s.size:
        return tuple(_sums_of(rows, limits) for limits in pools)
    pool = outcome.pool_of_replica[rows.replica]
    return tuple(_sums_of(_some(rows, pool == number), limits) for number, limits in enumerate(pools))


def _some(rows: Iterations, chosen: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> Iterations:
    return Iterations(**{f.name: getattr(rows, f.name)[chosen] for f in fields(Iterations)})


def _sums_of(rows: Iterations, limits: PoolLimits) -> IterationSums:
    """The sums over iterations of replicas with these limits."""
    if not rows.start_s.size:
        return IterationSums()
    seconds = rows.end_s - rows.start_s
    waiting_s = np.where(rows.waiting > 0, seconds, 0.0)
    prompts = rows.prompt_tokens > 0
    return IterationSums(
        with_prompts=_kind(rows, seconds, prompts),
        without=_kind(rows, seconds, ~prompts),
        waiting_s=float(waiting_s.sum()),
        cache_full_s=float(waiting_s[rows.kv_tokens >= FULL * limits.kv_capacity_tokens].sum()),
        sequences_full_s=float(waiting_s[rows.running >= limits.max_sequences].sum()),
        budget_full_s=float(
            waiting_s[rows.prompt_tokens + limits.pass_tokens * rows.decodes >= limits.token_budget].sum()
        ),
        kv_token_s=float(rows.kv_tokens @ seconds),
        most_kv_tokens=int(rows.kv_tokens.max()),
    )


def _kind(
    rows: Iterations,
    seconds: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    chosen: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
) -> PassSums:
    context = rows.kv_tokens[chosen] / np.maximum(rows.running[chosen], 1)
    return PassSums(
        iterations=int(chosen.sum()),
        seconds=float(seconds[chosen].sum()),
        prompt_tokens=int(rows.prompt_tokens[chosen].sum()),
        decodes=int(rows.decodes[chosen].sum()),
        context_tokens=float(context.sum()),
    )
