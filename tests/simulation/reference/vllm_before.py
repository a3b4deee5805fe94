"""vLLM 0.2 to 0.7: whole prompts in iterations of their own, before all decodes."""

from simulation.reference.scheduler import Batch, Scheduler


class VllmBefore(Scheduler):
    """Prompts first; the last admitted is put off where no block is free."""

    def form(self, now: float) -> Batch:
        """Form an iteration."""
        batch = Batch()
        self._begin(batch, now)
        if not batch.prompts:
            self._decode(batch)
        return batch

    def _begin(self, batch: Batch, now: float) -> None:
        """Take waiting prompts, in order, until one does not fit; a resumed one may exceed the budget, alone."""
        tokens = 0
        while self.waiting and self.taken < self.rules.max_sequences:
            sequence = self.waiting[0]
            tokens += sequence.length
            if tokens > self.rules.token_budget and batch.prompts:
                break
            if self.pool.blocks_for(sequence.length) + self.watermark > len(self.pool.free):
                break
            self.admit(sequence, [], now)
            self.pool.extend(sequence, sequence.length)
            batch.prompts.append((sequence, sequence.length))

    def _decode(self, batch: Batch) -> None:
        """Let running sequences decode, each while a block is free, needed or not."""
        self.running.sort(key=lambda sequence: (sequence.arrival_s, sequence.row))
        for sequence in list(self.running):
            while sequence in self.running and not self.pool.free:
                victim = self.running[-1]
                self.put_off(victim)
                self.waiting.insert(0, victim)
            if sequence in self.running:
                self.pool.extend(sequence, sequence.computed + 1)
                batch.decodes.append(sequence)
