"""Policies that admit a request when its whole prompt and answer fit, and therefore never put one off."""

from simulation.reference.scheduler import Batch, Rules, Scheduler
from simulation.reference.sequences import Block, Sequence


class Reserving(Scheduler):
    """Requests take all their blocks when they are admitted."""

    def next_that_fits(self) -> tuple[Sequence, list[Block]] | None:
        """Return the first waiting request with its cached blocks, if it may run; nobody behind it is tried."""
        if not self.waiting or self.taken >= self.rules.max_sequences:
            return None
        sequence = self.waiting[0]
        found = self.pool.find(sequence)
        if self.pool.blocks_for(self.whole(sequence)) - len(found) + self.promised > self.pool.room(found):
            return None
        return sequence, found

    @property
    def promised(self) -> int:
        """Free blocks that are promised to running sequences: none, as these have all of theirs."""
        return 0

    def reserve(self, sequence: Sequence, found: list[Block], now: float) -> None:
        """Admit a request and give it all blocks that it will ever need."""
        self.admit(sequence, found, now)
        self.pool.extend(sequence, self.whole(sequence))


class Orca(Reserving):
    """Iteration-level scheduling of the Orca paper: all decodes and all new prompts in every iteration."""

    def form(self, now: float) -> Batch:
        """Form an iteration."""
        batch = Batch(decodes=self.decodes())
        while (fits := self.next_that_fits()) is not None:
            self.reserve(*fits, now)
            batch.prompts.append((fits[0], fits[0].lacking))
        return batch


class TensorRtLlm(Reserving):
    """In-flight batching without eviction: all decodes, then prompts while their tokens fit in the budget."""

    def form(self, now: float) -> Batch:
        """Form an iteration."""
        batch = Batch(decodes=self.decode_all())
        budget = self.rules.token_budget - len(batch.decodes) * (1 + self.rules.drafted)
        for sequence in self.running:
            if not sequence.decoding:
                budget -= self._take(batch, sequence, budget)
        while budget > 0 and (fits := self.next_that_fits()) is not None:
            sequence, found = fits
            if self._new(sequence.length - len(found) * self.rules.block_tokens, budget) == 0:
                break
            self.admit(sequence, found, now)
            budget -= self._take(batch, sequence, budget)
        return batch

    @property
    def promised(self) -> int:
        """Free blocks that running sequences will take before they end."""
        return sum(self.pool.lacks(sequence, self.whole(sequence)) for sequence in self.running)

    def _new(self, lacking: int, budget: int) -> int:
        """How many tokens of a prompt run now: all, else whole blocks of it, or none without chunks."""
        if lacking <= budget:
            return lacking
        return budget // self.rules.block_tokens * self.rules.block_tokens if self.rules.chunked else 0

    def _take(self, batch: Batch, sequence: Sequence, budget: int) -> int:
        new = self._new(sequence.lacking, budget)
        if new > 0:
            self.pool.extend(sequence, sequence.computed + new)
            batch.prompts.append((sequence, new))
        return new


class Tgi(Reserving):
    """Text Generation Inference: with chunks prompts share iterations with decodes; without, they run alone."""

    def __init__(self, rules: Rules) -> None:
        """Begin idle."""
        super().__init__(rules)
        self.steps = 0
        """Iterations since prompts last ran, theirs included."""
        self.decodes_next = False
        """Prompts ran; all running sequences decode once before others are looked at."""

    def form(self, now: float) -> Batch:
        """Form an iteration."""
        return self._mixed(now) if self.rules.chunked else self._exclusive(now)

    def _mixed(self, now: float) -> Batch:
        batch = Batch(decodes=self.decodes())
        budget = self.rules.token_budget - len(batch.decodes) * (1 + self.rules.drafted)
        for sequence in self.running:
            if not sequence.decoding and budget > 0:
                new = min(sequence.lacking, budget)
                batch.prompts.append((sequence, new))
                budget -= new
        while budget > 0 and (fits := self.next_that_fits()) is not None:
            self.reserve(*fits, now)
            new = min(fits[0].lacking, budget)
            batch.prompts.append((fits[0], new))
            budget -= new
        return batch

    def _exclusive(self, now: float) -> Batch:
        decoding = self.decodes()
        if decoding and self.decodes_next:
            self.decodes_next = False
        elif prompts := self._prompts(now, len(decoding)):
            self.steps, self.decodes_next = 1, bool(decoding)
            return Batch(prompts=prompts)
        self.steps += 1
        return Batch(decodes=decoding)

    def _prompts(self, now: float, decoding: int) -> list[tuple[Sequence, int]]:
        """Whole prompts within the budget; none if so few would run that running sequences had better go on."""
        patient = decoding > 0 and self.steps < self.rules.wait_steps
        least = int(decoding * self.rules.waiting_share) if patient else 0
        if len(self.waiting) < least:
            return []
        prompts: list[tuple[Sequence, int]] = []
        budget = self.rules.token_budget
        while (fits := self.next_that_fits()) is not None:
            lacking = fits[0].length - len(fits[1]) * self.rules.block_tokens
            if lacking > budget:
                break
            budget -= lacking
            self.reserve(*fits, now)
            prompts.append((fits[0], lacking))
        if len(prompts) < least:
            for sequence, _ in reversed(prompts):
                self._take_back(sequence)
            return []
        return prompts

    def _take_back(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.pool.give_up(sequence)
        sequence.scheduled_s = None
        self.waiting.insert(0, sequence)


class Static(Reserving):
    """Static batching: a batch runs to its last token before the next begins, those that are done along with it."""

    def __init__(self, rules: Rules) -> None:
        """Begin idle."""
        super().__init__(rules)
        self.done: list[int] = []
        """Tokens in the cache of those that are done."""

    def form(self, now: float) -> Batch:
        """Form an iteration."""
        if self.running:
            batch = Batch(decodes=self.decodes(), idle=self.done)
            self.done = [tokens + 1 for tokens in self.done]
            return batch
        self.done = []
        batch = Batch()
        while (fits := self.next_that_fits()) is not None:
            self.reserve(*fits, now)
            batch.prompts.append((fits[0], fits[0].lacking))
        return batch

    def finish(self, batch: Batch, now: float) -> list[Sequence]:
        """End an iteration."""
        ended = super().finish(batch, now)
        if batch.decodes:
            self.done += [self.whole(sequence) for sequence in ended]
        return ended
