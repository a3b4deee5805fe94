"""Compares the predicted and the measured order of plans, in sweeps of plans over one scenario.

A sweep is what one source measured of one model, on one cluster, with one workload, under several plans. A search that
chose among these plans would take the fastest predicted one.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.frameworks.choices import FUSIONS
from sightline.profile.metrics import metric_of
from sightline.scenario.space import GENERATION_FIELDS, TRAINING_FIELDS
from sightline.validation.cases import Answer, Case

SEARCHED = {*TRAINING_FIELDS, *GENERATION_FIELDS, "balanced_prompts"} - {"framework", "quantization", "disaggregate"}
"""Fields of a plan that a search chooses, or that follow its layout; plans that differ in others answer other
questions."""
COMPARED = SEARCHED | {
    *("gradient_reduce_dtype", "fused_loss", *FUSIONS, "overlap_gradient_reduce"),
    *("overlap_parameter_gather", "tensor_overlap", "context_exchange", "data_parallel_shard"),
}
"""These, and what else people choose."""
SAME_BATCH = 0.025
"""Batches that differ by less are one question: sources round them to multiples of their replicas."""
RATES = ("model_flops_per_s_per_device", "mfu")
"""Speeds that are neither times nor amounts per second."""


def is_speed(quantity: str) -> bool:
    """Say whether a quantity tells which of two plans is faster."""
    return quantity in RATES or metric_of(quantity).unit in ("s", "tokens/s", "requests/s")


_OF_A_ROW = ("name", "measured", "unread")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranking:
    """A sweep, as it was measured and as it is predicted."""

    suite: str
    question: Mapping[str, Any]
    """What its scenarios share."""
    plans: Sequence[Mapping[str, Any]]
    """What tells them apart: the values of the fields that a search chooses."""
    measured: NDArray[np.float64]
    """Speed by plan, of a suite's own measure; a plan that was measured several times has the mean."""
    predicted: NDArray[np.float64]

    @property
    def loss(self) -> float:
        """How much faster the best measured plan is than the one that is predicted to be fastest."""
        return float(self.measured.max() / self.measured[np.argmax(self.predicted)] - 1)

    @property
    def correlation(self) -> float:
        """Spearman's rank correlation of predicted and measured speeds; not a number where all are alike."""
        from scipy.stats import spearmanr

        return float(spearmanr(self.measured, self.predicted).statistic)


def rankings(
    suite: str, quantity: str, answers: Iterable[Answer], chosen: AbstractSet[str] = SEARCHED
) -> Iterator[Ranking]:
    """Yield the sweeps of a suite of times or rates in which two or more plans were answered.

    ``answers`` are those of the suite's cases; plans are told apart by the fields ``chosen``.
    """
    by_question: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.predicted is not None:
            by_question[_question(answer.case, chosen)].append(answer)
    for question, asked in by_question.items():
        for alike in _of_one_batch(asked):
            by_plan: dict[str, list[Answer]] = defaultdict(list)
            for answer in alike:
                by_plan[json.dumps(_chosen(answer.case, chosen), sort_keys=True)].append(answer)
            if len(by_plan) > 1:
                yield _ranking(suite, quantity, json.loads(question), by_plan)


def _ranking(
    suite: str, quantity: str, question: Mapping[str, Any], by_plan: Mapping[str, Sequence[Answer]]
) -> Ranking:
    rate = metric_of(quantity).better == "higher"

    def speed(answer: Answer, value: float) -> float:
        # Of generation every plan of a question has the same batch.
        return value if rate else answer.case.scenario["workload"].get("global_batch", 1.0) / value

    return Ranking(
        suite=suite,
        question=question,
        plans=[json.loads(plan) for plan in by_plan],
        measured=np.array([fmean(speed(a, a.case.measured) for a in same) for same in by_plan.values()]),
        predicted=np.array([fmean(speed(a, a.predicted or 0.0) for a in same) for same in by_plan.values()]),
    )


def _chosen(case: Case, chosen: AbstractSet[str]) -> dict[str, Any]:
    return {field: value for field, value in case.scenario["plan"].items() if field in chosen}


def _question(case: Case, chosen: AbstractSet[str]) -> str:
    """A case's scenario without what a search chooses, without the batch and without what differs from row to row."""
    scenario = {key: value for key, value in case.scenario.items() if key not in _OF_A_ROW}
    work = {key: value for key, value in scenario["workload"].items() if key != "global_batch"}
    plan = {key: value for key, value in scenario["plan"].items() if key not in chosen}
    return json.dumps({**scenario, "workload": work, "plan": plan}, sort_keys=True)


def _of_one_batch(answers: Iterable[Answer]) -> Iterator[Sequence[Answer]]:
    """The answers in groups of about equal batch."""
    group: list[Answer] = []
    for answer in sorted(answers, key=_batch):
        if group and _batch(answer) > _batch(group[0]) * (1 + SAME_BATCH):
            yield group
            group = []
        group.append(answer)
    yield group


def _batch(answer: Answer) -> float:
    return float(answer.case.scenario["workload"].get("global_batch", 1.0))
