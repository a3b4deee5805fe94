"""Training and fine-tuning: what a step works on, and the whole question.

Published results say what somebody measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from sightline.content import description
from sightline.errors import InputError
from sightline.quantities import RATE, SAMPLES, TOKENS, Count, Number, rounded_up, show
from sightline.scenario.cluster import Question
from sightline.scenario.lengths import Lengths, Rows, packed_rows, padded_rows
from sightline.scenario.model import Model
from sightline.scenario.plan import Plan
from sightline.validators import Key, anything, quantity, tokens, whole

AT_MOST = "at_most"
"""Key of a batch that is the largest multiple of replicas and micro-batch below a number."""

Preference = Literal["none", "dpo", "ipo", "simpo", "orpo", "kto"]
"""Losses of preference training (arXiv 2305.18290, 2310.12036, 2405.14734, 2403.07691, 2402.01306)."""
REFERENCE_PASSES: Mapping[str, int] = {"dpo": 1, "ipo": 1, "kto": 2}
"""Forward passes of a reference model over a micro-batch, by loss; the second of kto is over mismatched samples."""


def sequences_of(preference: str) -> int:
    """Return the sequences of a sample: two of a pair."""
    return 1 if preference in ("none", "kto") else 2


def samples(value: Any) -> Any:
    """Samples of a step: a whole number, or ``{at_most: N}``."""
    if not isinstance(value, Mapping):
        return whole()(value)
    if value.keys() != {AT_MOST}:
        raise InputError(f"is {show(dict(value))}; allowed: a whole number, or {{{AT_MOST}: N}}")
    return {AT_MOST: whole()(value[AT_MOST])}


@description
class Pretrain:
    """Training on ``global_batch`` rows of up to ``sequence_length`` tokens per optimizer step."""

    task: ClassVar[str] = "pretrain"
    sequence_length: Annotated[int, Key(tokens(), needs="tokens per sample, a whole number of 1 or more")]
    """Tokens per sample, also as ``4k`` (k is 1024 in lengths: 4096, with a remark); with ``lengths`` the most
    tokens of a row."""
    global_batch: Annotated[int, Key(samples, needs="samples per optimizer step, a whole number of 1 or more")]
    """Samples per optimizer step; ``{at_most: N}`` is the largest multiple of replicas x micro-batch up to N."""
    total_tokens: Annotated[Number | None, quantity(TOKENS)] = None
    """Tokens of the whole run, also as ``15T``, ``300B`` or ``2.5M``; gives run time, energy and cost of as many
    whole steps."""
    samples: Annotated[Number | None, quantity(SAMPLES)] = None
    """Samples of the training set, in place of ``total_tokens``, which are then samples x their mean length x
    ``epochs``."""
    epochs: Annotated[Number | None, quantity(RATE)] = None
    """How often each of the ``samples`` is seen, by default once."""
    lengths: Annotated[Lengths | None, anything] = None
    """Length of samples if they differ: a number, a list or a distribution; longer ones are cut."""
    packing: bool = False
    """True: rows hold several whole samples that do not see each other, and ``global_batch`` counts rows; false: one
    sample per row, padded to the longest of its micro-batch."""
    preference: Preference = "none"
    """Fine-tuning on preferences: dpo, ipo, simpo and orpo, whose samples are pairs of a chosen and a rejected
    sequence, or kto, whose samples are single ones."""
    reference: Literal["model", "precomputed"] = "model"
    """Log-probabilities of the reference that dpo, ipo and kto need: a frozen model's passes in every step, or
    precomputed before the first."""

    def __post_init__(self) -> None:
        """Turn samples and epochs into the tokens that they are."""
        if self.samples is not None:
            length = self.sequence_length if self.lengths is None else self.lengths.drawn(self.sequence_length).mean()
            tokens = self.samples * self.sequences * length * (self.epochs or 1)
            object.__setattr__(self, "total_tokens", float(tokens))
            for name in ("samples", "epochs"):
                object.__setattr__(self, name, None)

    @property
    def sequences(self) -> int:
        """Sequences of a sample: two of a pair."""
        return sequences_of(self.preference)

    @property
    def reference_passes(self) -> int:
        """Forward passes of the reference model over a micro-batch."""
        return REFERENCE_PASSES.get(self.preference, 0) if self.reference == "model" else 0

    @property
    def passes_without_gradient(self) -> int:
        """All forward passes over a micro-batch that have no backward pass: of kto one of the trained model, too."""
        return self.reference_passes + (self.preference == "kto")

    def rows(self, micro_batch: Count) -> Rows:
        """Return what rows are made of in micro-batches of that many samples."""
        length = float(self.sequence_length)
        if self.lengths is None:
            return Rows(tokens=length, squares=length**2, real=length, real_squares=length**2, spread=0.0)
        if self.packing:
            return packed_rows(self.lengths, self.sequence_length)
        return padded_rows(self.lengths, self.sequence_length, micro_batch * self.sequences)

    @property
    def longest_row(self) -> int:
        """Tokens of the longest row of a run: of padded samples, the longest of as many as stand for all."""
        if self.lengths is None or self.packing:
            return self.sequence_length
        return int(self.lengths.drawn(self.sequence_length)[-1])

    @property
    def seen_tokens(self) -> float:
        """Tokens of the sample that a token belongs to, in the mean over tokens."""
        rows = self.rows(1)
        return rows.real_squares / rows.real

    @property
    def tokens_per_step(self) -> float:
        """Tokens of one optimizer step, without padding."""
        return self.rows(1).real * self.sequences * self.global_batch

    @property
    def steps(self) -> Number | None:
        """Optimizer steps of the whole run; None where its tokens are not stated."""
        return self.steps_of(self.tokens_per_step)

    def steps_of(self, tokens_per_step: Number) -> Number | None:
        """Return how many steps of so many tokens the whole run takes, of which the last one may need fewer."""
        # A quotient that rounding lifts above a whole number is that number.
        return None if self.total_tokens is None else rounded_up(self.total_tokens / tokens_per_step * (1 - 1e-12))


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
