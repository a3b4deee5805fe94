"""The times of all tokens of a request, told from what a simulation wrote down of its iterations."""

import numpy as np

from sightline.simulation.engine.sequences import accepted_drafts
from sightline.simulation.engine.state import Facts
from sightline.simulation.load import Floats
from sightline.simulation.outcome import COMPLETED, Outcome


def token_times_s(outcome: Outcome, row: int, facts: Facts) -> Floats:
    """Return the times of all tokens of a request, in order; empty where it was refused.

    A sequence that has its first token gets one in every iteration of its replica in which any sequence decodes, unless
    it was put off; after that its next token comes with the last of its prompt and answer so far. With speculative
    decoding an iteration yields several tokens at once.
    """
    if outcome.status[row] != COMPLETED:
        return np.zeros(0)
    iterations, stops = outcome.iterations, outcome.interruptions
    first_s, last_s = outcome.first_token_s[row], outcome.last_token_s[row]
    mine = (iterations.replica == outcome.replica[row]) & (iterations.decodes > 0)
    few = dict(zip(iterations.end_s[mine].tolist(), iterations.decodes[mine] <= facts.drafts_up_to, strict=True))
    ends_s = iterations.end_s[mine]
    ends_s = ends_s[(ends_s > first_s) & (ends_s <= last_s)]
    own = stops.request == row
    for from_s, to_s in zip(stops.from_s[own], stops.to_s[own], strict=True):
        ends_s = ends_s[(ends_s <= from_s) | (ends_s > to_s)]
    if facts.pass_tokens > 1:
        return _drafted(outcome, facts, row, np.sort(ends_s), stops.to_s[own], few)
    return np.sort(np.concatenate([[first_s], ends_s, stops.to_s[own]]))


def _drafted(
    outcome: Outcome, facts: Facts, row: int, ends_s: Floats, resumed_s: Floats, few: dict[float, bool]
) -> Floats:
    """The same of a request whose decode passes end at ``ends_s`` and verify drafted tokens, where they have ``few``."""
    drafted, answer = facts.pass_tokens - 1, int(outcome.requests.output_tokens[row])
    times_s = [float(outcome.first_token_s[row])]
    resumed = set(resumed_s.tolist())
    for end_s in np.sort(np.concatenate([ends_s, resumed_s])).tolist():
        accepted = 0
        if end_s not in resumed and few[end_s]:
            accepted = accepted_drafts(facts.seed, row, len(times_s), drafted, facts.acceptance)
        times_s += [end_s] * min(1 + accepted, answer - len(times_s))
    return np.array(times_s)
