"""Continuous batching of ``transformers serve``: first come, first served, skipping whom the cache has no room for."""

from simulation.reference.scheduler import Batch, Rules, Scheduler
from simulation.reference.sequences import Sequence


class Transformers(Scheduler):
    """Decodes, unfinished prompts, waiting requests; the last admitted is put off where blocks run out."""

    def __init__(self, rules: Rules) -> None:
        """Begin idle."""
        super().__init__(rules)
        self.closed = False
        """Waiting requests are not admitted, because a running one was put off and none has ended since."""

    def form(self, now: float) -> Batch:
        """Form an iteration."""
        while len(self.running) > 1 and self._needed() > len(self.pool.free):
            self._put_off_last()
        batch = self._take(now)
        while not batch and len(self.running) > 1:
            self._put_off_last()
            batch = self._take(now)
        return batch

    def finish(self, batch: Batch, now: float) -> list[Sequence]:
        """End an iteration."""
        ended = super().finish(batch, now)
        if ended:
            self.closed = False
        return ended

    def note_abort(self, sequence: Sequence) -> None:  # noqa: ARG002 - as the others have it
        """Note that a running sequence was given up."""
        self.closed = False

    def _needed(self) -> int:
        return sum(self.pool.lacks(sequence, sequence.computed + 1) for sequence in self.decodes())

    def _put_off_last(self) -> None:
        victim = self.running[-1]
        self.put_off(victim)
        self.waiting.append(victim)
        self.closed = True

    def _take(self, now: float) -> Batch:
        """Form an iteration of all decodes, and of the prompts that fit."""
        batch = Batch(decodes=self.decode_all())
        budget = self.rules.token_budget - len(batch.decodes)
        prompts = [sequence for sequence in self.running if not sequence.decoding]
        for sequence in [*prompts, *([] if self.closed else list(self.waiting))]:
            if budget == 0 or (sequence in self.waiting and self._stops(batch)):
                break
            budget -= self._try(sequence, batch, budget, now)
        return batch

    def _stops(self, batch: Batch) -> bool:
        """Whether waiting requests are not looked at: too many run, or too few blocks are free for more than one."""
        scarce = len(self.pool.free) < self.watermark
        return self.taken >= self.rules.max_sequences or (scarce and bool(batch))

    def _try(self, sequence: Sequence, batch: Batch, budget: int, now: float) -> int:
        """Take a prompt, or a chunk of it, if there are blocks for it; return its tokens."""
        waits = sequence in self.waiting
        found = self.pool.find(sequence) if waits else []
        before = len(found) * self.rules.block_tokens if waits else sequence.computed
        new = min(sequence.length - before, budget)
        if self.pool.blocks_for(before + new) - len(found if waits else sequence.blocks) > self.pool.room(found):
            return 0
        if waits:
            self.admit(sequence, found, now)
        self.pool.extend(sequence, before + new)
        batch.prompts.append((sequence, new))
        return new
