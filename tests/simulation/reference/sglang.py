"""SGLang's scheduler: prompt chunks in iterations of their own, admitted by an estimate of what answers will need."""

from dataclasses import dataclass

from simulation.reference.scheduler import Batch, Rules, Scheduler
from simulation.reference.sequences import Block, Sequence

LONGEST_COUNTED = 4096
"""Tokens of an answer to come that the estimate counts at most."""
STEPS_AFTER_RETRACTION = 20
"""Tokens that each sequence is expected to generate soon, when the share is estimated anew."""
MOST_SORTED = 128
"""Waiting requests up to which those with the longest cached prefix go first."""


@dataclass
class Room:
    """What an iteration of prompts may still take, in tokens."""

    slots: float
    chunk: int
    prefill: int


class Sglang(Scheduler):
    """Prompts first; the one that generated least is put off where slots run out."""

    keeps_all = False

    def __init__(self, rules: Rules) -> None:
        """Begin with the first estimate."""
        super().__init__(rules)
        self.share = rules.answer_share
        self.full = False
        """A request did not fit, and nobody has left the batch since."""
        self.left = False
        """A sequence ended or was put off since the last decode was formed."""
        self.steps = 0
        """Decodes since the share was last set."""
        self.unfinished: Sequence | None = None

    def form(self, now: float) -> Batch:
        """Form an iteration."""
        if not self.taken:
            self.full = self.left = False
            if not self.waiting:
                self.share, self.steps = self.rules.answer_share, 0
                return Batch()
        batch = Batch()
        if not self.full or self.unfinished:
            self._prefill(batch, now)
        if not batch.prompts:
            self._decode(batch)
        return batch

    def finish(self, batch: Batch, now: float) -> list[Sequence]:
        """End an iteration."""
        ended = super().finish(batch, now)
        self.left = self.left or bool(ended)
        return ended

    def note_abort(self, sequence: Sequence) -> None:
        """Note that a running sequence was given up."""
        self.left = True
        self.unfinished = None if self.unfinished is sequence else self.unfinished

    def expected_share(self) -> float:
        """Return the share of answers to come that slots are kept for."""
        fall = (self.rules.answer_share - self.rules.least_answer_share) / self.rules.answer_share_steps
        return max(self.share - fall * self.steps, self.rules.least_answer_share)

    def _prefill(self, batch: Batch, now: float) -> None:
        """Go on with the unfinished prompt, then take waiting ones while there is room."""
        page = self.rules.block_tokens
        to_come = sum(min(sequence.to_come, LONGEST_COUNTED) for sequence in self.decodes())
        slots = len(self.pool.free) * page - self.expected_share() * to_come
        room = Room(slots, self.rules.token_budget, self.rules.max_prefill_tokens)
        if self.unfinished:
            self._go_on(self.unfinished, room, batch)
        self._order()
        for sequence in list(self.waiting):
            if self.unfinished or room.slots <= 0 or room.chunk <= 0:
                break
            if self.taken >= self.rules.max_sequences:
                self.full = True
                break
            if not self._try(sequence, room, batch, now):
                break

    def _order(self) -> None:
        if self.rules.order == "longest-prefix" and self.rules.prefix_cache and len(self.waiting) <= MOST_SORTED:
            self.waiting.sort(key=lambda sequence: -len(self.pool.find(sequence)))

    def _go_on(self, sequence: Sequence, room: Room, batch: Batch) -> None:
        """Take the next chunk of the unfinished prompt."""
        new = self._cut(sequence.lacking, min(room.chunk, int(room.slots)))
        if new <= 0:
            return
        if new == sequence.lacking:
            self.unfinished = None
        self._charge(sequence, new, room)
        self.pool.extend(sequence, sequence.computed + new)
        batch.prompts.append((sequence, new))

    def _try(self, sequence: Sequence, room: Room, batch: Batch, now: float) -> bool:
        """Take a waiting request if it fits; return whether the next may be tried."""
        page = self.rules.block_tokens
        found = self.pool.find(sequence)
        lacking = sequence.length - len(found) * page
        held = len(self.pool.free) - self.pool.room(found)
        needs = lacking + min(sequence.to_come, LONGEST_COUNTED) + page
        if self.taken and needs >= room.slots - held * page:
            self.full = True
            return False
        if batch.prompts and self._pages(lacking) >= room.prefill:
            return False
        new = self._cut(lacking, room.chunk)
        if new <= 0:
            return False
        room.slots -= held * page
        self._admit(sequence, found, new, room, batch, now)
        return True

    def _admit(self, sequence: Sequence, found: list[Block], new: int, room: Room, batch: Batch, now: float) -> None:
        self.admit(sequence, found, now)
        if new < sequence.lacking:
            self.unfinished = sequence
        self._charge(sequence, new, room)
        self.pool.extend(sequence, sequence.computed + new)
        batch.prompts.append((sequence, new))

    def _cut(self, tokens: int, most: int) -> int:
        """As many of the tokens as fit; whole pages where they are cut."""
        page = self.rules.block_tokens
        return tokens if self._pages(tokens) <= most else most // page * page

    def _pages(self, tokens: int) -> int:
        return self.pool.blocks_for(tokens) * self.rules.block_tokens

    def _charge(self, sequence: Sequence, new: int, room: Room) -> None:
        taken = self._pages(new)
        answer = min(sequence.to_come, LONGEST_COUNTED) if new == sequence.lacking else 0
        room.slots -= taken + answer + self.rules.block_tokens
        room.chunk -= taken
        room.prefill -= taken

    def _decode(self, batch: Batch) -> None:
        """Let running sequences decode, after others were put off where slots for one more token each are not free."""
        if self.left:
            self.full = self.left = False
        decoding = self.decodes()
        if not decoding:
            return
        if self._needed(decoding) <= len(self.pool.free):
            self.steps += 1
        else:
            self._retract(decoding)
        batch.decodes = self.decode_all()

    def _needed(self, sequences: list[Sequence]) -> int:
        return sum(self.pool.lacks(sequence, self.reach(sequence)) for sequence in sequences)

    def _retract(self, decoding: list[Sequence]) -> None:
        """Put off those that generated least, of these the longest prompt first, until the others fit."""
        kept = sorted(decoding, key=lambda sequence: (-sequence.generated, sequence.prompt))
        while kept and self._needed(kept) > len(self.pool.free):
            victim = kept.pop()
            self.put_off(victim)
            self.waiting.append(victim)
        self.sort()
        self.full = self.left = False
        generated = sum(sequence.generated for sequence in kept) + STEPS_AFTER_RETRACTION * len(kept)
        self.share = min(1.0, generated / (sum(sequence.output for sequence in kept) + 1))
        self.steps = 0
