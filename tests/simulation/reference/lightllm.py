"""LightLLM's router: whole prompts in iterations of their own, admitted by the peak that all answers will reach."""

from simulation.reference.scheduler import Batch, Rules, Scheduler
from simulation.reference.sequences import Sequence


class LightLlm(Scheduler):
    """Prompts after so many decodes; nothing is put off, because the lengths of answers are known."""

    def __init__(self, rules: Rules) -> None:
        """Begin idle."""
        super().__init__(rules)
        self.steps = 0
        """Decode iterations since prompts last ran."""

    def form(self, now: float) -> Batch:
        """Form an iteration."""
        batch = Batch()
        if not self.running or self.steps >= self.rules.wait_steps:
            self._begin(batch, now)
        if batch.prompts:
            self.steps = 0
        else:
            self.steps += 1
            batch.decodes = self.decode_all()
        return batch

    def _begin(self, batch: Batch, now: float) -> None:
        """Take waiting prompts, in order, until one does not fit."""
        tokens = 0
        while self.waiting and self.taken < self.rules.max_sequences:
            sequence = self.waiting[0]
            tokens += sequence.length
            if tokens > self.rules.token_budget and batch.prompts:
                break
            if self.running and self.peak([*self.running, sequence]) > self.rules.blocks * self.rules.block_tokens:
                break
            self.admit(sequence, self.pool.find(sequence), now)
            self.pool.extend(sequence, sequence.length)
            batch.prompts.append((sequence, sequence.lacking))

    def peak(self, sequences: list[Sequence]) -> int:
        """Return the most tokens that will be in the cache at once, which is when one of them ends; blocks count whole."""
        by_end = sorted(sequences, key=lambda sequence: -steps_of(sequence))
        so_far, most = 0, 0
        for i, sequence in enumerate(by_end, 1):
            so_far += cached_of(sequence) + self.rules.block_tokens - 1
            most = max(most, so_far + i * steps_of(sequence))
        return most


def cached_of(sequence: Sequence) -> int:
    """Tokens of a sequence in the cache before the next decode; all of its prompt, if that is to be computed first."""
    return sequence.computed if sequence.decoding else sequence.length


def steps_of(sequence: Sequence) -> int:
    """Decodes that a sequence takes part in until it ends; a prompt yields a token without one."""
    return sequence.to_come if sequence.decoding else sequence.to_come - 1
