"""vLLM's v1 scheduler: a token budget that decodes and prompt chunks share."""

from simulation.reference.scheduler import Batch, Scheduler, importance
from simulation.reference.sequences import Sequence


class Vllm(Scheduler):
    """Running sequences first, then waiting ones; the last admitted is put off where blocks run out."""

    def form(self, now: float) -> Batch:
        """Form an iteration."""
        batch = Batch()
        waiting = len(self.waiting)
        budget = self._go_on(batch, self.rules.token_budget)
        if len(self.waiting) == waiting:
            self._begin(batch, budget, now)
        return batch

    def _go_on(self, batch: Batch, budget: int) -> int:
        """Give running sequences what they lack, in order of admission, decodes before a prompt that was cut.

        Return the budget that is left.
        """
        for sequence in sorted(self.running, key=lambda one: not one.decoding):
            if sequence not in self.running or (budget <= 0 and not sequence.decoding):
                continue
            # Decodes go on even where their drafts exceed the budget.
            new = sequence.per_pass if sequence.decoding else min(sequence.lacking, budget)
            reach = self.reach(sequence) if sequence.decoding else sequence.computed + new
            while self.pool.lacks(sequence, reach) > len(self.pool.free):
                victim = self._least_important()
                budget += batch.drop(victim)
                self.put_off(victim)
                self.waiting.insert(0, victim)
                self.sort()
                if victim is sequence:
                    break
            else:
                self.pool.extend(sequence, reach)
                if sequence.decoding:
                    batch.decodes.append(sequence)
                else:
                    batch.prompts.append((sequence, new))
                    # What a request computes is found by those behind it in the same iteration.
                    self.pool.publish(sequence, sequence.computed + new)
                budget -= new
        return budget

    def _begin(self, batch: Batch, budget: int, now: float) -> None:
        """Admit waiting requests, in order, until one does not fit."""
        while self.waiting and budget > 0 and self.taken < self.rules.max_sequences:
            sequence = self.waiting[0]
            found = self.pool.find(sequence)
            cached = len(found) * self.rules.block_tokens
            new = sequence.length - cached
            if new > budget and not self.rules.chunked:
                break
            new = min(new, budget)
            fits = sequence.length if self.rules.reserves == "prompt" else cached + new
            if self.pool.blocks_for(fits) - len(found) + self.watermark > self.pool.room(found):
                break
            self.admit(sequence, found, now)
            self.pool.extend(sequence, sequence.computed + new)
            self.pool.publish(sequence, sequence.computed + new)
            batch.prompts.append((sequence, new))
            budget -= new

    def _least_important(self) -> Sequence:
        return max(self.running, key=importance) if self.rules.order == "priority" else self.running[-1]
