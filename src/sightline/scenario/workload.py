"""What is asked of the model: so far, training and fine-tuning steps."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretrain:
    """Training on ``global_batch`` sequences of ``sequence_length`` tokens per optimizer step."""

    task: ClassVar[str] = "pretrain"
    sequence_length: int
    global_batch: int
    total_tokens: Number | None = None
    """Tokens of the whole run; gives run time, energy and money."""

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one optimizer step."""
        return self.sequence_length * self.global_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Finetune(Pretrain):
    """Fine-tuning: the same step on a model that already has weights."""

    task: ClassVar[str] = "finetune"


Workload: TypeAlias = Pretrain | Finetune
