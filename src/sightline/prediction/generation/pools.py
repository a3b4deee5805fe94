"""Disaggregated pools: workers that only prefill, workers that only decode, and what moves between them."""

from dataclasses import replace

from sightline.prediction.generation.phases import Phase, PricedGeneration
from sightline.quantities import Number, either, larger, rounded_up, smaller
from sightline.scenario import Generate

LIGHTER = 0.25
"""Share of the sequences at which a step is priced once more: between, and below, its time is a straight line."""


def prompts_together(priced: PricedGeneration) -> Number:
    """Return the prompts that all prefill workers process at the same time."""
    plan = priced.scenario.plan
    return larger(priced.chunks.prompts, 1.0) * plan.data_parallel * plan.replicas


def prefill_rounds(
    work: Generate, prefilling: PricedGeneration, prefill_s: Number, decode: Phase, moved_s: Number
) -> Number:
    """Return the prefills from a prompt's arrival to the end of its own on workers that only prefill.

    Of a static batch the last prompt counts. In a steady loop a sequence takes at least as long as the workers need for
    the prompts of all others (Little's law): what decoding leaves of that it waits.
    """
    needed = work.batch / prompts_together(prefilling)
    if not work.continuous:
        return rounded_up(needed)
    away_s = decode.passes * decode.pass_s + moved_s
    return larger(needed - away_s / prefill_s, 1.0)


def supplied_step(
    full: Phase, lighter: Phase, sequences: tuple[Number, Number], arrival_s: Number, under_way_s: Number
) -> Phase:
    """Return the step of as many sequences as prefill workers keep supplied; the others wait for their first token.

    ``lighter`` and ``full`` are steps of the two numbers of ``sequences``, of which those of ``full`` are served. In
    between a step of ``n`` takes ``f(n) = least + slope n`` seconds. Prompts arrive at most every ``arrival_s``, so
    that ``n`` sequences of so many steps ask for ``n arrival_s <= steps f(n)``; a prompt that is ``under_way_s`` does
    not decode yet. Where arithmetic binds the full step the line would begin below nothing; there a step of fewer
    sequences than ``lighter`` takes as long as that. Left out: bursts of arrivals.
    """
    fewer, served = sequences
    slope = larger(full.pass_s - lighter.pass_s, 0.0) / larger(served - fewer, 1.0)
    least = full.pass_s - slope * served
    steps = larger(full.passes, 1.0)
    on_line = least / larger(arrival_s / steps - slope, 1e-12)
    below = steps * lighter.pass_s / arrival_s
    supplied = either(least > 0.0, on_line, either(below <= fewer, below, served))
    decoding = served / (1.0 + under_way_s / (steps * full.pass_s))
    n = smaller(larger(smaller(decoding, supplied), smaller(served, 1.0)), served)
    shortest = either(least > 0.0, least, lighter.pass_s)
    share = larger(least + slope * n, shortest) / full.pass_s
    return replace(full, times=full.times.times(share), host_s=full.host_s * share, transfer_s=full.transfer_s * share)
