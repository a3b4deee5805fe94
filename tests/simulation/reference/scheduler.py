"""What all policies share: the queues, and what an iteration does to its sequences."""

from dataclasses import dataclass, field
from math import inf
from typing import Literal

from simulation.reference.blocks import Pool, Tier
from simulation.reference.sequences import Block, Sequence

from sightline.simulation.engine.sequences import accepted_drafts
from sightline.simulation.engine.state import MANY


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Limits of an engine; the fields are those of ``Serving`` and of the plan."""

    policy: str = "vllm"
    blocks: int = 1000
    """Of the cache, those that no request gets left out."""
    block_tokens: int = 4
    context_tokens: int = 10**9
    max_sequences: int = 256
    token_budget: int = 2048
    chunked: bool = True
    prefix_cache: bool = True
    order: str = "fcfs"
    reserves: str = "chunk"
    watermark: float = 0.0
    max_prefill_tokens: int = 10**9
    max_concurrent: int = 10**9
    """Requests in the server beyond which further ones are refused."""
    max_queued: int = 10**9
    """Requests in the queue beyond which further ones are refused."""
    queue_s: float = inf
    """Seconds in the queue after which a request that never ran is dropped."""
    wait_steps: int = 0
    waiting_share: float = 0.0
    prefix_from: Literal["scheduled", "computed", "ended"] = "scheduled"
    prefix_answers: bool = True
    ahead: bool = False
    """An iteration is formed while the one before it runs."""
    answer_share: float = 1.0
    least_answer_share: float = 1.0
    answer_share_steps: int = 1
    stages: int = 1
    """Micro-batches in flight in a pipeline, all of which an iteration has."""
    lockstep: int = 1
    """Ranks next to each other whose iterations begin together and last as long as the longest."""
    drafted: int = 0
    """Tokens that each decode pass verifies besides a sequence's own."""
    lookahead: int = 0
    """Slots for drafts behind those."""
    drafts_up_to: int = MANY
    """Decoding sequences above which a pass verifies none."""
    acceptance: float = 0.0
    seed: int = 0
    role: Literal["whole", "prefill", "decode"] = "whole"
    """What a replica does of a request."""
    computes_last: bool = False
    """A replica that decodes alone computes the prompt's last token again; else it gets the first token sent."""
    decode_tokens: int = 0
    """Free tokens that such a replica keeps for the answer of each request."""
    tiers: tuple[Tier, ...] = ()
    """Memories behind the cache, fastest first."""
    token_s: float = 0.0
    """Seconds to compute a token, to which such loads are compared."""
    loads_along: bool = False
    """Loads from them take no time besides the iteration, unless they are longer."""

    def drafted_of(self, decodes: int) -> int:
        """Return the tokens that a pass of so many decoding sequences verifies of each besides its own."""
        return self.drafted if decodes <= self.drafts_up_to else 0


@dataclass
class Batch:
    """The work of an iteration: sequences that decode, and prompts (or chunks of them) with their new tokens."""

    decodes: list[Sequence] = field(default_factory=list)
    prompts: list[tuple[Sequence, int]] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)
    """Cached tokens of sequences that ended but are computed along."""
    loading_s: float = 0.0
    """Seconds of loads from tiers."""
    stopped: int = 0
    """Decoding sequences that clients gave up while it ran, before which it was known whether any are drafted."""
    given_up: int = 0
    """Sequences whose clients gave them up while it ran."""

    def __bool__(self) -> bool:
        """Whether there is any work."""
        return bool(self.decodes or self.prompts or self.given_up)

    def new_tokens(self, rules: Rules) -> int:
        """New tokens, drafts included."""
        return len([*self.decodes, *self.idle]) * (1 + rules.drafted_of(len(self.decodes))) + sum(
            new for _, new in self.prompts
        )

    def drop(self, sequence: Sequence) -> int:
        """Take a sequence out; return the tokens that it would have computed."""
        if sequence in self.decodes:
            self.decodes.remove(sequence)
            return sequence.per_pass
        for i, (prompt, new) in enumerate(self.prompts):
            if prompt is sequence:
                del self.prompts[i]
                return new
        return 0


class Scheduler:
    """A policy: subclasses say how an iteration is formed (`form`)."""

    keeps_all = True
    """A sequence that is put off finds what it had generated again, as far as it is in the cache still."""

    def __init__(self, rules: Rules) -> None:
        """Begin idle, with an empty cache."""
        self.rules = rules
        self.pool = Pool(rules.blocks, rules.block_tokens, rules.prefix_cache, rules.tiers)
        self.pool.token_s = rules.token_s
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        """Admitted sequences, in order of admission."""
        self.watermark = int(rules.watermark * rules.blocks)
        self.late: list[Sequence] = []
        """Requests that arrived while the iteration under way ran, which the next, formed before, does not see."""
        self.ready: list[Sequence] = []
        """Requests whose prompts other replicas have processed."""
        self.late_ready: list[Sequence] = []
        self.leaving: list[Sequence] = []
        """Sequences that ended with the last iteration, whose places and blocks the next still finds taken."""

    def arrive(self, sequence: Sequence, *, busy: bool) -> None:
        """Let a request wait."""
        if self.rules.ahead and busy:
            self.late.append(sequence)
        else:
            self.waiting.append(sequence)
            self.sort()

    def land(self, sequence: Sequence, *, busy: bool) -> None:
        """Let a request wait to decode."""
        (self.late_ready if self.rules.ahead and busy else self.ready).append(sequence)

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return len(self.waiting) + len(self.late) + len(self.ready) + len(self.late_ready)

    @property
    def taken(self) -> int:
        """Places that are taken."""
        return len(self.running) + len(self.leaving)

    def sort(self) -> None:
        """Bring the waiting requests in order; first come, first served unless by priority."""
        if self.rules.order == "priority":
            self.waiting.sort(key=importance)

    def schedule(self, now: float) -> Batch:
        """Form the next iteration, which begins now; an empty one where nothing can be done."""
        self.pool.now = now
        self._take_in(now)
        batch = self.form(now)
        if not batch:
            # What was put off has the cache to itself now; where iterations are formed ahead, this one is not.
            self._leave()
            self._notice()
            self._take_in(now)
            batch = self.form(now)
        self._notice()
        batch.loading_s, self.pool.loading_s = self.pool.loading_s, 0.0
        for sequence, new in batch.prompts:
            sequence.computed += new
        return batch

    def _leave(self) -> None:
        for sequence in self.leaving:
            self.pool.give_up(sequence)
        self.leaving = []

    def _notice(self) -> None:
        self.waiting += self.late
        self.late = []
        self.sort()
        self.ready += self.late_ready
        self.late_ready = []

    def _take_in(self, now: float) -> None:
        """Let requests decode that others have begun, once those that were put off run again."""
        while self.ready and not self.waiting and self.taken < self.rules.max_sequences:
            sequence = self.ready[0]
            if not self._has_room(sequence):
                break
            self.ready.remove(sequence)
            self.running.append(sequence)
            if self.rules.computes_last:
                sequence.generated, sequence.token_s = 0, []
            else:
                sequence.token_s = [now]
            sequence.computed = sequence.length - 1
            sequence.decoding = True
            self.pool.extend(sequence, sequence.computed)

    def _has_room(self, sequence: Sequence) -> bool:
        pool, block = self.pool, self.rules.block_tokens
        if self.rules.reserves == "answer":
            promised = sum(pool.lacks(other, self.whole(other)) for other in self.running)
            return pool.blocks_for(self.whole(sequence)) + promised <= len(pool.free)
        coming = sum(pool.lacks(other, other.computed + 1) for other in self.decodes())
        kept = max(coming, -(-self.rules.decode_tokens * self.taken // block))
        need = pool.blocks_for(sequence.prompt + max(self.rules.decode_tokens, 1))
        if not self.taken:
            need = min(need, pool.blocks_for(self.whole(sequence)))
        return need + kept + self.watermark <= len(pool.free)

    def form(self, now: float) -> Batch:
        """Form an iteration: the rules of the policy."""
        raise NotImplementedError

    def finish(self, batch: Batch, now: float) -> list[Sequence]:
        """End an iteration; return the sequences that ended with it."""
        ended = []
        self._leave()
        drafted = self.rules.drafted_of(len(batch.decodes) + batch.stopped)
        news = {sequence.row: self.accepted(sequence, drafted) for sequence in batch.decodes}
        for sequence in batch.decodes:
            sequence.computed += news[sequence.row]
            if self.rules.prefix_from == "scheduled":
                self.pool.publish(sequence, sequence.computed, write=False)
        for sequence, _ in batch.prompts:
            if self.rules.prefix_from == "computed":
                self.pool.publish(sequence, sequence.computed)
        done = [sequence for sequence, _ in batch.prompts if sequence.lacking == 0]
        for sequence in [*batch.decodes, *done]:
            sequence.decoding = True
            new = news.get(sequence.row, 1)
            sequence.generated += new
            sequence.token_s += [now] * new
            if sequence.to_come == 0:
                self.end(sequence)
                ended.append(sequence)
        return ended

    def end(self, sequence: Sequence) -> None:
        """Free what a sequence holds that has its last token."""
        self.running.remove(sequence)
        answers = sequence.computed if self.rules.prefix_answers else min(sequence.computed, sequence.prompt)
        self.pool.publish(sequence, answers)
        self.leaving.append(sequence)
        if not self.rules.ahead:
            self._leave()

    # Steps that several policies have.

    def admit(self, sequence: Sequence, found: list[Block], now: float) -> None:
        """Let a waiting request run, with what the prefix cache has of it."""
        self.waiting.remove(sequence)
        self.running.append(sequence)
        self.pool.hold(sequence, found)
        if sequence.scheduled_s is None:
            sequence.scheduled_s = now
            sequence.cached = sequence.computed

    def put_off(self, sequence: Sequence) -> None:
        """Free what a running sequence holds; it keeps its tokens and will compute them all again."""
        self.running.remove(sequence)
        if self.rules.prefix_from == "computed" and self.keeps_all:
            self.pool.publish(sequence, sequence.computed)
        self.pool.give_up(sequence)
        sequence.decoding = False
        sequence.preemptions += 1

    def abort(self, sequence: Sequence, batch: Batch) -> bool:
        """Forget a request that is here, and let the iteration under way go on without it; return whether it is."""
        for queue in (self.waiting, self.late, self.ready, self.late_ready):
            if sequence in queue:
                queue.remove(sequence)
                return True
        if sequence not in self.running:
            return False
        batch.stopped += sequence in batch.decodes
        batch.given_up += batch.drop(sequence) > 0
        if self.rules.prefix_from == "computed" and not sequence.decoding:
            self.pool.publish(sequence, sequence.computed)
        self.put_off(sequence)
        sequence.preemptions -= 1
        self.note_abort(sequence)
        return True

    def note_abort(self, sequence: Sequence) -> None:
        """Note that a running sequence was given up."""

    def decodes(self) -> list[Sequence]:
        """Running sequences that decode."""
        return [sequence for sequence in self.running if sequence.decoding]

    def decode_all(self) -> list[Sequence]:
        """Let all running sequences decode, whose blocks are there already or surely free."""
        decoding = self.decodes()
        for sequence in decoding:
            self.pool.extend(sequence, self.reach(sequence))
        return decoding

    def whole(self, sequence: Sequence) -> int:
        """Return the slots of a request when it ends; its last token is never fed in, drafts beyond it are."""
        return sequence.prompt + sequence.output - 1 + self.rules.drafted + self.rules.lookahead

    def reach(self, sequence: Sequence) -> int:
        """Return the slots that a sequence needs for its next decode."""
        return sequence.computed + 1 + self.rules.drafted + self.rules.lookahead

    def accepted(self, sequence: Sequence, drafted: int) -> int:
        """Return the tokens that a decode pass yields: one, and drafts up to the first that is not accepted."""
        of = self.rules
        drafts = accepted_drafts(of.seed, sequence.row, sequence.generated, drafted, of.acceptance)
        return min(1 + drafts, sequence.to_come)


def importance(sequence: Sequence) -> tuple[int, float, int]:
    """Order requests by priority, then by arrival."""
    return sequence.priority, sequence.arrival_s, sequence.row
