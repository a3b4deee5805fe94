"""Training and fine-tuning: what a step works on, and the whole question.

Published results say what somebody measured.
"""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from sightline.content import description
from sightline.quantities import Count, Number, rounded_up
from sightline.scenario.cluster import Question
from sightline.scenario.lengths import Lengths, Rows, packed_rows, padded_rows
from sightline.scenario.model import Model
from sightline.scenario.plan import Plan


@description
class Pretrain:
    """Training on ``global_batch`` rows of up to ``sequence_length`` tokens per optimizer step."""

    task: ClassVar[str] = "pretrain"
    sequence_length: int
    global_batch: int
    total_tokens: Number | None = None
    """Tokens of the whole run; gives run time, energy and money."""
    lengths: Lengths | None = None
    """Tokens of the samples where they differ; longer ones are cut. None means that all have ``sequence_length``."""
    packing: bool = False
    """Rows hold several samples that don't see each other, instead of one and padding."""

    def rows(self, micro_batch: Count) -> Rows:
        """Return what rows are made of in micro-batches of that many."""
        length = float(self.sequence_length)
        if self.lengths is None:
            return Rows(tokens=length, squares=length**2, real=length, real_squares=length**2, spread=0.0)
        if self.packing:
            return packed_rows(self.lengths, self.sequence_length)
        return padded_rows(self.lengths, self.sequence_length, micro_batch)

    @property
    def seen_tokens(self) -> float:
        """Tokens of the sample that a token belongs to, in the mean over tokens."""
        rows = self.rows(1)
        return rows.real_squares / rows.real

    @property
    def tokens_per_step(self) -> float:
        """Tokens of one optimizer step, without padding."""
        return self.rows(1).real * self.global_batch


@description
class Finetune(Pretrain):
    """Fine-tuning: the same step on a model that already has weights."""

    task: ClassVar[str] = "finetune"


Workload: TypeAlias = Pretrain | Finetune


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scenario(Question):
    """A question about training, fully resolved."""

    model: Model
    workload: Workload
    plan: Plan

    @property
    def micro_batches(self) -> Number:
        """Micro-batches of a step on one replica."""
        return rounded_up(self.workload.global_batch / (self.plan.data_parallel * self.plan.sequences))
