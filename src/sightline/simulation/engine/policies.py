"""Schedulers that admit what they can serve to its end, and the policies by number, so that one loop serves them all.

Each forms an iteration and returns how often it may be repeated if nothing ends, arrives or runs out.
"""

from typing import Final

from sightline.simulation.compiled import compiled
from sightline.simulation.engine import state
from sightline.simulation.engine.blocks import hits
from sightline.simulation.engine.preempting import (
    schedule_sglang,
    schedule_transformers,
    schedule_vllm,
    schedule_vllm_0,
)
from sightline.simulation.engine.sequences import (
    admit,
    cached_of,
    compute,
    grow,
    to_compute,
    tokens_of,
    whole_blocks,
)
from sightline.simulation.engine.state import Facts, Replica, Slots
from sightline.simulation.times import PackedTimes


@compiled
def schedule_tgi(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """Text Generation Inference: a request takes blocks for its prompt and its longest answer at once.

    With chunks (3.0 on) batching is in flight. Before, prompts ran whole and alone; while others run they are looked at
    after a number of decode steps, or when many wait.
    """
    counts = rep.counts
    if facts.chunked:
        return schedule_in_flight(rep, slots, facts, times, now)
    due = counts[state.UNSERVED] + 1 >= facts.wait_steps
    running, looks = counts[state.RUNNING], not (counts[state.FULL] and counts[state.DECODING] > 0)
    if looks and (running == 0 or due or _fitting(rep, slots, facts) >= max(int(facts.waiting_share * running), 1)):
        _take_prompts(rep, slots, facts, times, now, facts.token_budget)
    # After prompts that came between, the others decode before prompts are looked at again.
    counts[state.FULL] = counts[state.BATCH_PROMPTS] > 0 and running > 0
    if counts[state.BATCH_PROMPTS] > 0:
        return 0
    counts[state.BATCH_DECODES] = counts[state.DECODING]
    return state.MANY if (due and looks) or counts[state.WAITING] == 0 else 0


@compiled
def _fitting(rep: Replica, slots: Slots, facts: Facts) -> int:
    """Waiting requests that could be taken now, in order."""
    fitting = tokens = 0
    free, slot = rep.counts[state.FREE_BLOCKS], rep.counts[state.FIRST_WAITING]
    while slot != state.NOTHING and rep.counts[state.RUNNING] + fitting < facts.max_sequences:
        tokens += slots[slot].prompt
        free -= whole_blocks(slots, slot, facts)
        if tokens > facts.token_budget or free < 0:
            break
        fitting += 1
        slot = slots[slot].following
    return fitting


@compiled
def _take_prompts(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float, budget: int) -> None:
    """Admit waiting requests in order while budget, sequences and blocks last."""
    while rep.counts[state.WAITING] > 0 and budget > 0 and rep.counts[state.RUNNING] < facts.max_sequences:
        slot = rep.counts[state.FIRST_WAITING]
        cached, unheld = hits(rep, slots, slot, slots[slot].prompt, facts)
        new = _chunk(slots[slot].prompt - cached * facts.block_tokens, budget, facts)
        need = whole_blocks(slots, slot, facts) - cached + unheld + rep.counts[state.PROMISED]
        unseen = slots[slot].arrival_s > rep.clocks[state.SEEN]
        if unseen or need > rep.counts[state.FREE_BLOCKS] or new == 0:
            return
        admit(rep, slots, slot, cached, facts, rep.counts[state.ADMITTED])
        compute(rep, slots, slot, new, facts, times, now)
        budget -= new


@compiled
def schedule_lightllm(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """LightLLM: whole prompts run alone while the estimated peak of all sequences fits in the cache.

    Every sequence's length is known from its longest answer, so that the peak is exact where answers are as long as
    they may be, and nothing is ever put off.
    """
    counts = rep.counts
    if counts[state.WAITING] > 0 and (counts[state.RUNNING] == 0 or counts[state.UNSERVED] >= facts.wait_steps):
        _take_whole_prompts(rep, slots, facts, times, now)
    if counts[state.BATCH_PROMPTS] > 0:
        return 0
    grow(rep, slots, facts)
    counts[state.BATCH_DECODES] = counts[state.DECODING]
    return state.MANY if counts[state.WAITING] == 0 else 0


@compiled
def _take_whole_prompts(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> None:
    """Admit waiting requests in order, whole, while budget, sequences and the estimated peak allow."""
    left = facts.token_budget
    running = _note_lengths(rep, slots, facts)
    while rep.counts[state.WAITING] > 0 and rep.counts[state.RUNNING] < facts.max_sequences:
        slot = rep.counts[state.FIRST_WAITING]
        if slots[slot].arrival_s > rep.clocks[state.SEEN] or slots[slot].prompt > left:
            return
        _note_length(rep, running, slots[slot].prompt, slots[slot].output - 1)
        running += 1
        if _peak(rep, running) > facts.blocks * facts.block_tokens:
            return
        cached, _ = hits(rep, slots, slot, slots[slot].prompt, facts)
        admit(rep, slots, slot, cached, facts, rep.counts[state.ADMITTED])
        compute(rep, slots, slot, slots[slot].prompt - cached * facts.block_tokens, facts, times, now)
        left -= slots[slot].prompt


@compiled
def _note_lengths(rep: Replica, slots: Slots, facts: Facts) -> int:
    """Note tokens so far and tokens to come of the running sequences; return how many these are."""
    i, slot = 0, rep.counts[state.FIRST_RUNNING]
    while slot != state.NOTHING:
        to_come = slots[slot].output - tokens_of(rep, slots, slot, facts)
        _note_length(rep, i, cached_of(rep, slots, slot, facts), to_come)
        i, slot = i + 1, slots[slot].following
    return i


@compiled
def _note_length(rep: Replica, noted: int, tokens: int, to_come: int) -> None:
    """Note a sequence among others, of which those with the most tokens to come stand first."""
    at = noted
    while at > 0 and rep.stacks[at - 1].to_come < to_come:
        rep.stacks[at].tokens, rep.stacks[at].to_come = rep.stacks[at - 1].tokens, rep.stacks[at - 1].to_come
        at -= 1
    rep.stacks[at].tokens, rep.stacks[at].to_come = tokens, to_come


@compiled
def _peak(rep: Replica, noted: int) -> int:
    """The most tokens that sequences ever have together, from what each has and what each will yet have.

    When the one that ends as the i-th from last ends, i sequences are left, which have each grown by as much.
    """
    most = so_far = 0
    for i in range(noted):
        so_far += rep.stacks[i].tokens
        most = max(most, so_far + (i + 1) * rep.stacks[i].to_come)
    return most


@compiled
def schedule_in_flight(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """In-flight batching with a promise: TensorRT-LLM's GUARANTEED_NO_EVICT, Orca, and TGI from 3.0 on.

    A request is admitted if blocks for its prompt and its longest answer fit beside what the running sequences may
    still take. An iteration has all decoding sequences, and prompts while their tokens fit in the budget.
    """
    counts = rep.counts
    grow(rep, slots, facts)
    counts[state.BATCH_DECODES] = counts[state.DECODING]
    budget = facts.token_budget - counts[state.DECODING] * facts.pass_tokens
    partial = counts[state.PARTIAL]
    if partial != state.NOTHING and budget > 0:
        new = _chunk(to_compute(slots, partial) - slots[partial].computed, budget, facts)
        if new > 0:
            compute(rep, slots, partial, new, facts, times, now)
            budget -= new
    _take_prompts(rep, slots, facts, times, now, budget)
    return state.MANY


@compiled
def _chunk(rest: int, budget: int, facts: Facts) -> int:
    """The tokens of a prompt that an iteration takes: all, whole blocks where prompts are cut (TGI: any), or none."""
    if rest <= budget:
        return rest
    block = 1 if facts.policy == TGI else facts.block_tokens
    return budget // block * block if facts.chunked else 0


@compiled
def schedule_static(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """Static batching: the first waiting requests that fit together run until the last of them is done.

    Those that are done earlier stay in the batch; their work goes on and is thrown away. Nobody joins.
    """
    counts = rep.counts
    if counts[state.RUNNING] == 0:
        _take_prompts(rep, slots, facts, times, now, state.MANY)
    counts[state.BATCH_DECODES] = counts[state.DECODING] if counts[state.BATCH_PROMPTS] == 0 else 0
    return state.MANY


VLLM, VLLM_0, SGLANG, TGI, LIGHTLLM, TRANSFORMERS, IN_FLIGHT, STATIC = range(8)
"""Numbers of `Facts.policy`."""
POLICIES: Final = {
    "vllm": VLLM,
    "vllm-0": VLLM_0,
    "sglang": SGLANG,
    "tgi": TGI,
    "lightllm": LIGHTLLM,
    "transformers": TRANSFORMERS,
    "tensorrt-llm": IN_FLIGHT,
    "orca": IN_FLIGHT,
    "static": STATIC,
}
"""The same by the name that an engine's data states (`sightline.frameworks.engine.Policy`)."""


@compiled
def schedule(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:  # noqa: PLR0911
    """Form the next iteration; return how often it may be repeated if nothing ends, arrives or runs out."""
    if facts.policy == VLLM:
        return schedule_vllm(rep, slots, facts, times, now)
    if facts.policy == VLLM_0:
        return schedule_vllm_0(rep, slots, facts, times, now)
    if facts.policy == SGLANG:
        return schedule_sglang(rep, slots, facts, times, now)
    if facts.policy == TGI:
        return schedule_tgi(rep, slots, facts, times, now)
    if facts.policy == LIGHTLLM:
        return schedule_lightllm(rep, slots, facts, times, now)
    if facts.policy == TRANSFORMERS:
        return schedule_transformers(rep, slots, facts, times, now)
    if facts.policy == IN_FLIGHT:
        return schedule_in_flight(rep, slots, facts, times, now)
    return schedule_static(rep, slots, facts, times, now)
