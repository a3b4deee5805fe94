"""Speculative decoding: which of the tokens that are drafted for a sequence a pass accepts.

A drafted token is accepted with one probability where those before it were (arXiv 2211.17192). What a pass accepts is a
function of the seed, the request and the token that it begins at, so that neither the batch nor the replica that a
request meets changes it.
"""

from typing import Final

from sightline.simulation.compiled import compiled, entry
from sightline.simulation.engine.contents import mixed
from sightline.simulation.engine.state import Facts, Slots

_SEED_BITS: Final = 40
"""Bits of a request's number."""
_FRACTION: Final = (1 << 53) - 1
"""Bits of a hash that become a share."""


@entry
def accepted_drafts(seed: int, request: int, token: int, drafted: int, acceptance: float) -> int:
    """Return how many of the tokens drafted for a request are accepted in the pass that yields its ``token``."""
    share = (mixed((seed << _SEED_BITS) ^ request, token) & _FRACTION) / (_FRACTION + 1.0)
    accepted, passed = 0, acceptance
    while accepted < drafted and share < passed:
        accepted += 1
        passed *= acceptance
    return accepted


@compiled
def tokens_of_pass(slots: Slots, slot: int, generated: int, facts: Facts) -> int:
    """Return the tokens that a decode pass yields behind ``generated`` ones: one, accepted drafts, none too many."""
    accepted = accepted_drafts(facts.seed, slots[slot].request, generated, facts.pass_tokens - 1, facts.acceptance)
    return min(1 + accepted, slots[slot].output - generated)


@compiled
def passes_to_come(slots: Slots, slot: int, facts: Facts) -> int:
    """Return the decode passes until a sequence has its last token."""
    generated = slots[slot].generated
    if facts.pass_tokens == 1:
        return slots[slot].output - generated
    passes = 0
    while generated < slots[slot].output:
        generated += tokens_of_pass(slots, slot, generated, facts)
        passes += 1
    return passes
