"""What own measurements teach: effects of a site, and what these leave of the errors of plans near to measured ones.

The error of a step's logarithm is a sum of effects, of something that near plans have in common, and of noise. So a
prediction near a measured step takes over what the effects left of it (kriging with a regression: Rasmussen and
Williams, Gaussian Processes for Machine Learning, 2006, section 2.7). Near is a plan by its numbers and choices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import exp, log
from typing import Any

import numpy as np

from sightline.catalog import entry
from sightline.content import content, description, fields_of, record
from sightline.cost.device_model import device_model
from sightline.errors import refuse
from sightline.prediction.anchoring.timed import Answered, Timed
from sightline.prediction.beliefs import Array, Beliefs, Gradient, Predict, learned
from sightline.quantities import Number
from sightline.scenario import Model, Scenario
from sightline.scenario.generation import DEGREES

COUNTED_IN_TRAINING: Sequence[str] = (*DEGREES, "context_parallel", "micro_batch")
COUNTED_IN_GENERATION: Sequence[str] = (*DEGREES, "replicas")
CHOSEN_IN_TRAINING: Sequence[str] = (
    *("zero_stage", "sequence_parallel", "recompute", "attention", "dtype", "quantization", "adapter"),
    *("offload", "optimizer", "compile", "virtual_stages", "schedule"),
)
CHOSEN_IN_GENERATION: Sequence[str] = (
    *("dtype", "quantization", "chunked_prefill", "cuda_graphs"),
    *("speculative", "disaggregate"),
)
OF_RUNS: Sequence[str] = ("total_tokens", "samples", "epochs")
"""Fields of a workload that say how long it runs."""
OF_CLUSTERS: Sequence[str] = ("device", "intra_node", "network", "host")


@description
class Spreads:
    """How what effects leave of errors differs between plans (the catalog's ``training/constants``)."""

    shared: float
    """Share of the case's variance that a step has in common with its next neighbour."""
    constants: float
    """How far a constant strays between plans of a site that have nothing in common, over how far between sites."""
    doublings: float
    choices: float
    """In how many factors of two, and other choices, likeness falls to 1/e."""


def plan_spreads() -> Spreads:
    """Return what the catalog states."""
    return Spreads(**entry("training", "constants")["anchors"])


@record
class Description:
    """What sets scenarios apart, and which result of them is meant."""

    numbers: Mapping[str, Any]
    """Those that count by their ratio; arrays where a plan is an open mesh."""
    choices: Mapping[str, str]
    whole: Mapping[str, Any] = field(default_factory=dict)
    """All that the result depends on."""


def described(scenario: Answered, quantity: str) -> Description:
    """Return what sets a result of a scenario apart from others."""
    # Their figures may be varied to see what hangs on them.
    cluster = {name: getattr(scenario.cluster, name).name for name in OF_CLUSTERS}
    work = {name: value for name, value in fields_of(scenario.workload).items() if name not in OF_RUNS}
    named = {"model": scenario.model.name, "per_node": scenario.cluster.per_node, "quantity": quantity}
    whole = {**scenario.plan.to_dict(), **work, **cluster, **named}
    return Description(
        numbers=counted(scenario),
        choices={**chosen_of(scenario), "quantity": quantity},
        whole={**counted(scenario), **{name: _comparable(value) for name, value in whole.items()}},
    )


def _comparable(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else content(value, np.size(value))


def is_same(anchor: Description, plan: Description) -> Any:
    """Return whether two results are the same one of the same plan; an array where the plan is an open mesh."""
    return np.all(np.broadcast_arrays(*(plan.whole.get(key) == value for key, value in anchor.whole.items())), axis=0)


def likeness(anchor: Description, plan: Description, spreads: Spreads) -> Number:
    """Return the correlation of what effects leave of two results' errors: exp(-distance).

    A factor of two in a number counts one ``doublings``-th, another choice one ``choices``-th.
    """
    mine, other = anchor.numbers, plan.numbers
    doublings: Number = sum(np.abs(np.log2(1.0 * other[key] / mine[key])) for key in mine)
    changed = sum(anchor.choices[key] != plan.choices[key] for key in plan.choices)
    similar: Number = np.exp(-doublings / spreads.doublings - changed / spreads.choices)
    return similar


def layer_kinds(model: Model) -> set[str]:
    """Return what the layers of a model are made of, in words."""
    kinds = {"experts": "experts", "latent": "latent attention", "linear": "linear attention"}
    kinds |= {"state_space": "state-space layers", "sparse": "sparse attention", "compressed": "compressed attention"}
    kinds |= {"convolution": "gated convolutions"}
    return {word for name, word in kinds.items() if getattr(model, name, None) is not None}


def counted(scenario: Answered) -> dict[str, Any]:
    """Return the numbers of a scenario that set plans apart by their ratio."""
    model, work = scenario.model, scenario.workload
    if isinstance(scenario, Scenario):
        fields, sizes = COUNTED_IN_TRAINING, {"tokens": float(np.max(scenario.workload.sequence_length))}
    else:
        fields = COUNTED_IN_GENERATION
        sizes = {key: getattr(work, key) for key in ("batch", "prompt_tokens", "output_tokens")}
    degrees = {key: getattr(scenario.plan, key) for key in fields}
    return degrees | sizes | {"layers": model.layers, "width": model.hidden_size, "devices": scenario.cluster.devices}


def chosen_of(scenario: Answered) -> Mapping[str, str]:
    """Return the choices of a scenario, as text: those that differ set plans apart."""
    plan = scenario.plan
    if isinstance(scenario, Scenario):
        framework = scenario.plan.framework
        names, made_by = CHOSEN_IN_TRAINING, f"{framework.name}, {framework.overlap}"
    else:
        names, made_by = CHOSEN_IN_GENERATION, scenario.plan.engine.name
    choices = {name: _in_words(getattr(plan, name)) for name in names}
    return choices | {"model": scenario.model.name, "device": scenario.cluster.device.name, "made by": made_by}


def _in_words(value: object) -> str:
    return str(sorted(value)) if isinstance(value, frozenset) else str(value)


CONTRADICTION = 3.0
"""Standard deviations by which a measurement differs from what the others lead to, where they contradict each other."""

FREEDOM = 4.0
"""Degrees of freedom of how well spreads are known: measurements far from what was expected widen all of them."""

SURPRISING = 2.0
"""Factor on variances from which measurements are called surprising."""


@record
class Posterior:
    """What is believed after some measurements."""

    before: Beliefs
    beliefs: Beliefs
    timed: Sequence[Timed[Any]]
    expected: Array
    """Logarithms of the seconds predicted before anything was measured."""
    gradients: Sequence[Gradient]
    """How the predictions move with the effects, at the beliefs' means."""
    left: Array
    """Logarithms of measured over predicted at the beliefs' means."""
    noise: Array
    """Covariance of what effects do not explain."""
    scale: float = 1.0
    """Factor on variances where measurements were farther from what was expected than spreads allow for."""
    contradictions: Sequence[str] = ()

    @property
    def is_surprising(self) -> bool:
        """Whether the measurements are farther from what was expected than published clusters differ."""
        return self.scale >= SURPRISING

    def weights(self, shared: Sequence[Any]) -> Array:
        """Return how much of what is left of each measurement a plan takes over.

        ``shared`` is the covariance of its own unexplained error with that of each measurement; numbers, or arrays.
        """
        stacked = np.stack(np.broadcast_arrays(*map(np.asarray, shared))).astype(float)
        flat = stacked.reshape(len(stacked), -1)
        solved: Array = np.linalg.solve(self.noise, flat).reshape(stacked.shape)
        return solved

    def shift(self, shared: Sequence[Any]) -> Any:
        """Return what a plan takes over of what effects left of the measurements."""
        return np.tensordot(self.left, self.weights(shared), axes=1)

    def variance(self, gradient: Gradient, shared: Sequence[float], own: float, weights: Array | None = None) -> float:
        """Return the variance of a plan's logarithm; ``own`` is that of what effects do not explain of it.

        ``weights`` say what it takes over of each measurement, where that is not what it shares with them.
        """
        weights = self.weights(shared) if weights is None else weights
        slopes: dict[str, float] = dict(gradient)
        for weight, anchor in zip(weights, self.gradients, strict=True):
            for name, slope in anchor.items():
                slopes[name] = slopes.get(name, 0.0) - float(weight) * slope
        believed = float(self.beliefs.variance(slopes))
        return self.scale * (believed + max(0.0, own - float(np.dot(weights, shared))))


def posterior(before: Beliefs, predict: Predict, timed: Sequence[Timed[Any]], noise: Array) -> Posterior:
    """Return what measurements teach."""
    measured = np.log([run.seconds for run in timed])
    expected, slopes = predict(before)
    beliefs = learned(before, predict, measured, noise)
    predicted, gradients = predict(beliefs)
    named = before.with_effects([*beliefs.names, *(name for gradient in gradients for name in gradient)])
    mean = np.array([beliefs.mean_of(name) for name in named.names])
    errors = measured - predicted + named.matrix(gradients) @ (mean - named.mean)
    return Posterior(
        before=before,
        beliefs=beliefs,
        timed=timed,
        expected=expected,
        gradients=gradients,
        left=measured - predicted,
        noise=noise,
        scale=surprise_scale(errors, before.joint_variance(gradients) + noise),
        contradictions=contradictions(before, slopes, measured - expected, noise, timed),
    )


def surprise_scale(errors: Array, covariance: Array) -> float:
    """Return the factor on variances after errors of this covariance, whose size is only roughly known; never below 1.

    A scaled inverse chi-squared prior: Gelman et al., Bayesian Data Analysis, 3rd ed., section 3.2.
    """
    surprise = float(errors @ np.linalg.solve(covariance, errors))
    return max(1.0, (FREEDOM + surprise) / (FREEDOM + len(errors)))


def contradictions(
    before: Beliefs, slopes: Sequence[Gradient], errors: Array, noise: Array, timed: Sequence[Timed[Any]]
) -> list[str]:
    """Return a sentence for each measurement that the others, with all that is believed, make next to impossible."""
    names = [run.name for run in timed]
    if len({*names}) < 2:
        return []
    covariance, sentences = before.joint_variance(slopes) + noise, {}
    for place, run in enumerate(timed):
        others = [other for other, name in enumerate(names) if name != run.name]
        shared = covariance[others, place]
        weights = np.linalg.solve(covariance[np.ix_(others, others)], shared)
        distance = float(errors[place] - weights @ errors[others])
        if abs(distance) > CONTRADICTION * np.sqrt(covariance[place, place] - weights @ shared):
            sentences[run.name] = (
                f"anchors contradict each other: '{run.name}' measured {run.quantity} {run.seconds:.4g}, the "
                f"others give {run.seconds * np.exp(-distance):.4g}; the interval covers both"
            )
    return list(sentences.values())


def moved(after: Posterior, constant_effects: Mapping[str, float]) -> tuple[float, float]:
    """Return by how much a sum of effects moved, and its standard deviation now."""
    change = sum(s * (after.beliefs.mean_of(n) - after.before.mean_of(n)) for n, s in constant_effects.items())
    return change, float(np.sqrt(after.beliefs.variance(constant_effects)))


FARTHEST = 5.0
"""Factor between what was measured and predicted beyond which an anchor is refused: clusters differ by far less."""
LARGER, SMALLER = ((1e3, "ms"), (1e6, "us")), ((60.0, "minutes"), (3600.0, "hours"))
"""Units that seconds may be taken for, by the factor that makes the number larger, or smaller."""


def check(after: Posterior | None) -> None:
    """Refuse anchors that are too far from their predictions; processors, which are known by far less, are left out.

    Raises:
        InputError: Some anchor is too far; all of them at once.
    """
    if after is None:
        return
    problems = []
    for run, logarithm in zip(after.timed, after.expected, strict=True):
        predicted = exp(float(logarithm))
        ratio = run.seconds / predicted
        if (
            abs(log(ratio)) <= max(run.sensitivity, 1.0) * log(FARTHEST)
            or not device_model(run.scenario.cluster.device).asynchronous
        ):
            continue
        problems.append(
            f"anchor '{run.name}' measured {run.quantity} {run.seconds:.4g} s; predicted {predicted:.4g} s: "
            f"{_question(ratio)}"
        )
    refuse(problems)


def _question(ratio: float) -> str:
    """What may explain a factor between measured and predicted."""
    size = max(ratio, 1.0 / ratio)
    near = (unit for factor, unit in (LARGER if ratio > 1 else SMALLER) if factor / 3 <= size <= factor * 3)
    unit = next(near, None)
    return "check its unit and its scenario" if unit is None else f"is it in {unit}?"


@record
class Unexplained:
    """What effects do not explain of a time: its parts as standard deviations of its logarithm."""

    description: Description
    noise: float
    """Its own alone."""
    near: Mapping[str, Number]
    """What it has in common with others as far as they are alike, by kind; arrays for an open mesh."""
    common: Mapping[str, Number]
    """What it has in common with all that have it, by kind; arrays for an open mesh."""

    @property
    def variance(self) -> float:
        """All of it; of one plan."""
        return self.noise**2 + sum(float(part) ** 2 for part in (*self.near.values(), *self.common.values()))

    def shared_with(self, anchor: "Unexplained", spreads: Spreads) -> Number:
        """Return the covariance with an anchor's."""
        near = sum(part * anchor.near.get(kind, 0.0) for kind, part in self.near.items())
        common = sum(part * anchor.common.get(kind, 0.0) for kind, part in self.common.items())
        return near * likeness(anchor.description, self.description, spreads) + common


def covariance_of(parts: Sequence[Unexplained], spreads: Spreads) -> Array:
    """Return the covariance of what effects do not explain of several times."""
    rows = [[float(one.shared_with(other, spreads)) for other in parts] for one in parts]
    return np.array(rows) + np.diag([one.noise**2 for one in parts])


@record
class Corrections(Posterior):
    """What is believed after the anchors of a task, and what plans take over of it by their likeness."""

    unexplained: Sequence[Unexplained]
    """What effects do not explain of each anchor."""
    spreads: Spreads

    def taken_over(self, plan: Unexplained) -> Number:
        """Return what a plan takes over of what effects left of the anchors: a shift of its logarithm."""
        shift: Number = np.tensordot(self.left, self._weights(plan), axes=1)
        return shift

    def share_left(self, plan: Unexplained, before: Gradient, after: Gradient, known: float = 0.0) -> float:
        """Return the variance of a plan's logarithm over what it was without anchors.

        ``before`` and ``after`` say how it moves with effects at what was believed then and is believed now; ``known``
        is the part of its unexplained variance that became effects.
        """
        was = float(self.before.variance(before)) + plan.variance
        shared = list(map(float, self._shared(plan)))
        return self.variance(after, shared, plan.variance - known, self._weights(plan)) / was

    def _weights(self, plan: Unexplained) -> Array:
        """How much a plan takes over of each anchor; of its own measurement all, since what is noise is the plan's."""
        solved = self.weights(self._shared(plan))
        # What is left of one part of a load is no plan's.
        same = [bool(anchor.near) & is_same(anchor.description, plan.description) for anchor in self.unexplained]
        own = np.stack([np.broadcast_to(one, solved.shape[1:]) for one in same])
        count: Array = own.sum(axis=0)
        return np.where(count > 0, own / np.maximum(count, 1), solved)

    def _shared(self, plan: Unexplained) -> list[Number]:
        return [plan.shared_with(anchor, self.spreads) for anchor in self.unexplained]


def corrections_of(
    before: Beliefs,
    predict: Predict,
    timed: Sequence[Timed[Any]],
    unexplained: Sequence[Unexplained],
    spreads: Spreads,
) -> Corrections:
    """Return what anchors teach that ``predict`` predicts, with what effects do not explain of each."""
    after = posterior(before, predict, timed, covariance_of(unexplained, spreads))
    return Corrections(**fields_of(after), unexplained=unexplained, spreads=spreads)


def widest(own: float, others: Sequence[tuple[float, float]]) -> float:
    """Return the half-width of an interval that also spans those of ``others``: their distances and half-widths.

    Others are what each of several anchors says alone, where they contradict each other.
    """
    return max((own, *(abs(distance) + spread for distance, spread in others)))


def contradicting(after: Posterior) -> list[str]:
    """Return the names of the runs if some contradict each other; nothing where none do."""
    names = dict.fromkeys(run.name for run in after.timed)
    return list(names) if after.contradictions and len(names) > 1 else []


@record
class Cases:
    """The slowdowns of all loads."""

    names: Sequence[str] = ()
    """Of their effects."""
    parts: Sequence[Unexplained] = ()
    """What each has in common with plans."""
    spreads: Spreads

    @property
    def covariance(self) -> Array:
        """That of the effects, before anything is measured."""
        return covariance_of(self.parts, self.spreads)

    def weights(self, plan: Unexplained) -> dict[str, float]:
        """Return how much a plan takes over of each."""
        if not self.names:
            return {}
        solved = np.linalg.solve(self.covariance, self._shared(plan))
        return dict(zip(self.names, map(float, solved), strict=True))

    def known(self, plan: Unexplained) -> float:
        """Return the part of a plan's unexplained variance that these slowdowns are."""
        return float(np.dot(list(self.weights(plan).values()), self._shared(plan))) if self.names else 0.0

    def taken_over(self, plan: Unexplained, beliefs: Beliefs) -> float:
        """Return the shift of a plan's logarithm that it takes over of what is believed of them."""
        return sum(weight * beliefs.mean_of(name) for name, weight in self.weights(plan).items())

    def _shared(self, plan: Unexplained) -> Array:
        return np.array([float(plan.shared_with(part, self.spreads)) for part in self.parts])
