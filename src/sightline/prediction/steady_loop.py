"""Steps of decoding in a steady loop: prompts that they take along, and sequences that wait for a prefill worker."""

from dataclasses import replace

import numpy as np

from sightline.prediction.engine_constants import InferenceConstants
from sightline.prediction.generation_phases import Phase
from sightline.prediction.generation_pricing import PricedGeneration
from sightline.prediction.inference_pass import attention_time
from sightline.quantities import Number

LIGHTER = 0.25
"""Share of the sequences at which a step is priced once more: between, and below, its time is a straight line."""


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
    slope = np.maximum(full.pass_s - lighter.pass_s, 0.0) / np.maximum(served - fewer, 1.0)
    least = full.pass_s - slope * served
    steps = np.maximum(full.passes, 1.0)
    on_line = least / np.maximum(arrival_s / steps - slope, 1e-12)
    below = steps * lighter.pass_s / arrival_s
    supplied = np.where(least > 0.0, on_line, np.where(below <= fewer, below, served))
    decoding = served / (1.0 + under_way_s / (steps * full.pass_s))
    n = np.clip(np.minimum(decoding, supplied), np.minimum(served, 1.0), served)
    shortest = np.where(least > 0.0, least, lighter.pass_s)
    share = np.maximum(least + slope * n, shortest) / full.pass_s
    return replace(full, times=full.times * share, host_s=full.host_s * share, transfer_s=full.transfer_s * share)


def held_up(priced: PricedGeneration) -> Number:
    """Return the share of the others' prefills that a sequence waits for in its decoding.

    Where all sequences are equally long, those that start together also end together. Where prompts go first newcomers
    come in waves, of which each waits for the prompts behind it, on average half of them; where steps take prompts
    along, a sequence waits for all but those of its own group.
    """
    plan, work = priced.scenario.plan, priced.scenario.workload
    if not work.equal_lengths:
        return 1.0
    if not plan.engine.scheduling.mixed_batches:
        return 0.5
    own = priced.chunks.prompts * plan.data_parallel * plan.replicas
    return 1.0 - np.minimum(own / work.batch, 1.0)


def without_shared(priced: PricedGeneration, decode: Phase, prefills: Number, constants: InferenceConstants) -> Phase:
    """Decode steps without those that prefills take along: of such a step its attention alone comes on top."""
    if not priced.scenario.plan.engine.scheduling.mixed_batches:
        return decode
    own_s = attention_time(priced.decode, priced.prices, constants)
    taken = np.minimum(prefills, decode.passes) * (1.0 - own_s / decode.pass_s)
    return replace(decode, passes=decode.passes - taken)
