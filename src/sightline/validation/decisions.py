"""Decisions that predictions are asked for: which plan is fastest, what one choice changes, which plan fits in memory.

Every change of a formula is held against these: ``sightline validate --plans``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from math import isnan, nan
from statistics import fmean
from typing import Any, NamedTuple

from sightline.frameworks.choices import FUSIONS
from sightline.profile.metrics import metric_of
from sightline.profile.results import stamped
from sightline.scenario.precision import MATMUL_FORMATS
from sightline.validation.cases import Answer, Result, Suite
from sightline.validation.evaluation import OUT_OF_MEMORY, AnySuite
from sightline.validation.rankings import COMPARED, Ranking, is_speed, rankings

NEAR = 0.05
"""A pick that loses at most this share is as good as the best."""
LARGE = 5
"""Plans of a sweep from which on its order is told."""
NOTICED = 0.03
"""Pairs whose times differ by less are told apart by chance."""
_IN_ORDER: Mapping[str, Sequence[Any]] = {
    "sequence_parallel": (False, True),
    "recompute": ("none", "selective", "full"),
    "zero_stage": (0, 1, 2, 3),
    "gradient_reduce_dtype": ("fp32", "bf16"),
    "weights": (16, 8, 4),
    **dict.fromkeys(("compile", "fused_loss", "cuda_graphs", "expert_parallel", *FUSIONS), (False, True)),
}
"""Values of a field, the least first; of weights their bits, of experts whether ranks divide them."""
_DEGREES = ("tensor_parallel", "pipeline_parallel")
_SERVED = ("devices", "replicas")
CHANGES = (*_IN_ORDER, "micro_batch", "tensor_parallel", *_SERVED)
"""What a pair of plans differs in: one field, a micro-batch by a factor of two, or tensor ranks for stages; of
generation also experts spread over ranks, weights in fewer bits, twice the devices for twice the tensor ranks, and
replicas of half the tensor ranks, with the same batch for each device."""
_Figures = dict[str, Any]


class Pair(NamedTuple):
    """Two measured plans that differ in one choice: the time of the one with more of it over that of the other."""

    change: str
    measured: float
    """Less 1: -0.05 is 5 % faster."""
    predicted: float


def is_decided(suite: AnySuite) -> bool:
    """Say whether a suite measures speeds of training or generation."""
    return isinstance(suite, Suite) and is_speed(suite.quantity)


def decisions_of(results: Sequence[Result]) -> list[_Figures]:
    """Return the decisions of each source, then of all, under the documented keys."""
    parts: dict[str, tuple[list[Any], list[Any], list[Any], list[Any]]] = {}
    answers: dict[tuple[str, str], list[Answer]] = {}
    for result in results:
        answers.setdefault((result.suite, result.quantity), []).extend(result.answers)
    for (source, quantity), found in answers.items():
        sweeps, pairs, ran, ran_out = parts.setdefault(source, ([], [], [], []))
        if quantity == OUT_OF_MEMORY:
            ran_out += found
        elif is_speed(quantity):
            sweeps += rankings(source, quantity, found)
            pairs += _single_choices(source, quantity, found)
            ran += found
    every = (list(chain(*part)) for part in zip(*parts.values(), strict=True))
    return [_figures(source, *part) for source, part in (*parts.items(), ("all", every))]


def _single_choices(source: str, quantity: str, found: Sequence[Answer]) -> Iterator[Pair]:
    """Yield the pairs of plans that differ in one choice; servers by themselves, and their replicas side by side."""
    chosen = COMPARED | {"cuda_graphs", "weights", *_SERVED}
    for by_device in (False, True):
        asked = [one for answer in found if (one := _layout(answer, quantity, by_device=by_device))]
        pairs = (pair for wider in rankings(source, quantity, asked, chosen) for pair in _pairs(wider))
        yield from (pair for pair in pairs if (pair.change == "replicas") == by_device)


def _layout(answer: Answer, quantity: str, *, by_device: bool) -> Answer | None:
    """An answer of generation with its devices and weights among its plan's choices; ``by_device``: for one of them.

    Answers' own lengths stay out of the question where sequences follow each other: they were drawn anew in each run.
    """
    stated = answer.case.scenario
    work, plan, cluster, model = ({**part} if isinstance(part := stated.get(key), Mapping) else {} for key in _PARTS)
    if work.get("task") != "generate" or not cluster:
        return None if by_device else answer
    words = plan.pop("quantization", None) or model.pop("weights", "")
    words = ({words} if isinstance(words, str) else {*words}) - {"", "none", "bf16", "fp16"}
    weights = min(words & MATMUL_FORMATS.keys(), key=_bits, default="16-bit")
    devices = int(str(cluster.pop("devices")).partition("x")[0])
    plan = {"expert_parallel": 1, "replicas": 1, "cuda_graphs": True} | plan | {"weights": weights, "devices": devices}
    for part, keys in ((cluster, ("name", "per_node")), (model, ("name",)), (plan, ("max_sequences",))):
        for key in keys:
            part.pop(key, None)
    if work.get("continuous"):
        work.pop("output_tokens", None)
    scale = 1.0
    if by_device:
        work["batch"] /= devices
        plan["replicas"] /= plan.pop("devices")
        scale = devices if metric_of(quantity).better == "higher" else 1.0
    named = {"workload": work, "plan": plan, "cluster": cluster, "formats": sorted(words - {weights})}
    scenario = {**stated, **named, "model": model or stated["model"]}
    case = replace(answer.case, scenario=scenario, measured=answer.case.measured / scale)
    return replace(answer, case=case, predicted=None if answer.predicted is None else answer.predicted / scale)


_PARTS = ("workload", "plan", "cluster", "model")


def _bits(weights: str) -> int:
    """Bits of a weight without its scales."""
    whole_bytes = MATMUL_FORMATS[weights].weight_bytes
    return 16 if whole_bytes >= 2 else 8 if whole_bytes >= 1 else 4


def _figures(
    source: str,
    sweeps: Sequence[Ranking],
    pairs: Sequence[Pair],
    ran: Sequence[Answer],
    ran_out: Sequence[Answer],
) -> _Figures:
    large = [sweep for sweep in sweeps if len(sweep.plans) >= LARGE]
    order = [value for sweep in large if not isnan(value := sweep.correlation)]
    spearman = {"spearman": fmean(order) if order else None, "lowest_spearman": min(order, default=None)}
    by_change = {change: [pair for pair in pairs if pair.change == change] for change in CHANGES}
    return {
        "source": source,
        "sweeps": _picks(sweeps),
        "large_sweeps": _picks(large) | spearman,
        "pairs": {change: _errors(found) for change, found in by_change.items() if found},
        "ran": _fits(ran),
        "ran_out": _fits(ran_out),
    }


def _picks(sweeps: Sequence[Ranking]) -> _Figures:
    losses = [sweep.loss for sweep in sweeps]
    reached = sum(loss <= NEAR for loss in losses)
    return {"count": len(losses), "within_5_percent": reached, "worst_regret": max(losses, default=None)}


def _errors(pairs: Sequence[Pair]) -> _Figures:
    return {
        "count": len(pairs),
        "sign_right": sum(pair.measured * pair.predicted > 0 for pair in pairs),
        "error": fmean(abs(pair.predicted - pair.measured) for pair in pairs),
        **{key: fmean(getattr(pair, key) for pair in pairs) for key in ("measured", "predicted")},
    }


def _fits(answers: Sequence[Answer]) -> dict[str, int]:
    return {fit: sum(answer.fit == fit for answer in answers) for fit in ("yes", "tight", "no")}


def _pairs(sweep: Ranking) -> Iterator[Pair]:
    """Yield the pairs of a sweep's plans that differ in one choice and noticeably in time."""
    for places in combinations(range(len(sweep.plans)), 2):
        change, place = _change(*(sweep.plans[place] for place in places))
        less, more = places if place else places[::-1]
        measured = float(sweep.measured[less] / sweep.measured[more]) - 1
        if change and abs(measured) > NOTICED:
            yield Pair(change, measured, float(sweep.predicted[less] / sweep.predicted[more]) - 1)


def _change(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, int]:
    """What alone differs between two plans, and which of them has more of it; nothing where more differs."""
    plans = (one, other)
    names = {*one, *other} - _without_effect(one) - _without_effect(other)
    differing = {name for name in names if one.get(name) != other.get(name)}
    tensor, stages = ([plan.get(name, 1) for plan in plans] for name in _DEGREES)
    if differing == {*_DEGREES} and tensor[0] * stages[0] == tensor[1] * stages[1]:
        return "tensor_parallel", int(tensor[1] > tensor[0])
    experts = [plan.get("expert_parallel", 1) > 1 for plan in plans]
    for name in {"devices", "replicas"} & differing if experts[0] == experts[1] else ():
        first, second = (plan[name] for plan in plans)
        shared = tensor[1] * second if name == "replicas" else tensor[1] / second
        alike = shared == (tensor[0] * first if name == "replicas" else tensor[0] / first)
        if (
            differing <= {name, "tensor_parallel", "expert_parallel"}
            and alike
            and max(first, second) == 2 * min(first, second)
        ):
            return name, int(second > first)
    (name,) = differing if len(differing) == 1 else ("",)
    values = [plan.get(name, nan) for plan in plans]
    if name == "micro_batch" and max(values) == 2 * min(values):
        return name, int(values[1] > values[0])
    values = experts if name == "expert_parallel" else [*map(_bits, values)] if name == "weights" else values
    order = _IN_ORDER.get(name, ())
    if values[0] == values[1] or not all(value in order for value in values):
        return "", 0
    return name, int(order.index(values[1]) > order.index(values[0]))


def _without_effect(plan: Mapping[str, Any]) -> set[str]:
    """Fields that change nothing in a plan: those of a pipeline or of tensor ranks that it does not have."""
    alone = {"sequence_parallel"} if plan.get("tensor_parallel", 1) == 1 else set()
    return alone | ({"schedule", "virtual_stages"} if plan.get("pipeline_parallel", 1) == 1 else set())


def decisions_to_dict(found: Sequence[_Figures]) -> _Figures:
    """Return the decisions of each source and of all under the documented keys."""
    return stamped({"decisions": list(found[:-1]), "all": found[-1]})
