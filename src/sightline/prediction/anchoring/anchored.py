"""All that anchors teach, learned once, and any scenario predicted with it; what it is, in keys and sentences."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import exp, log
from typing import Any

from sightline.content import description, record
from sightline.errors import InputError, refuse
from sightline.prediction.anchoring import anchored_requests, anchored_steps
from sightline.prediction.anchoring import posterior as plausible
from sightline.prediction.anchoring.anchor import Anchor
from sightline.prediction.anchoring.anchored_requests import AnchoredRequests, engine_at_site
from sightline.prediction.anchoring.anchored_requests import site_of as site_of_engine
from sightline.prediction.anchoring.anchored_steps import AnchoredSteps, site_of
from sightline.prediction.anchoring.posterior import Posterior, layer_kinds, moved
from sightline.prediction.anchoring.timed import Answered, MeasuredStep, Timed, task_name
from sightline.prediction.common_figures import ADD_YOUR_OWN
from sightline.prediction.generation.batch_profile import predict_generation
from sightline.prediction.generation.sites import straying
from sightline.prediction.training.constants import PACE, base_constants, causes_of, effects_on, priors, shifted
from sightline.prediction.training.step_profile import predict as predict_step
from sightline.profile import Profile
from sightline.quantities import FOUR_IN_FIVE, counted, percent
from sightline.scenario import GenerationScenario, OperatorScenario, Scenario

LEAST_CHANGE = 0.005
"""Relative change of a constant that is worth a line."""
MOST_SENTENCES = 2


@description
class Lesson:
    """What anchors taught of one constant."""

    constant: str
    assumed: float
    value: float
    interval: tuple[float, float]
    """80 % of what is believed now."""
    surprise: float
    """By how many standard deviations of what is believed now it moved."""

    def to_dict(self) -> dict[str, Any]:
        """Return the documented keys."""
        return {
            "constant": self.constant,
            "assumed": self.assumed,
            "value": self.value,
            "interval": list(self.interval),
        }


def lessons_of_steps(known: AnchoredSteps, one: Timed[Scenario]) -> list[Lesson]:
    """Return what is known of the training constants of an anchor's site, largest surprise first."""
    scenario = one.scenario
    causes = causes_of(scenario, known.corrections.before, site_of(scenario))
    base = base_constants(scenario)

    def value(name: str, shift: float) -> float:
        return exp(shift) if name == PACE else float(getattr(shifted(scenario, {name: shift}), name))

    names = [name for name in priors() if name == PACE or getattr(base, name)]
    return _lessons(known.corrections, {name: effects_on(name, causes) for name in names}, value)


def lessons_of_requests(known: AnchoredRequests, one: Timed[GenerationScenario]) -> list[Lesson]:
    """Return what is known of the engine's constants of an anchor's site, largest surprise first.

    A measured load also has slowdowns of its own, which no constant explains.
    """
    engine = engine_at_site(one.scenario)
    site = site_of_engine(engine.scenario)

    def value(name: str, shift: float) -> float:
        return float(getattr(engine.base, name, 1.0)) * exp(shift)

    names = [name for name in straying() if name == PACE or getattr(engine.base, name)]
    effects = {name: (f"{name}/site/{site}",) for name in names}
    case = f"/case/{one.name}"
    own = {effect.removesuffix(case): (effect,) for effect in known.cases.names if effect.endswith(case)}
    return _lessons(known.corrections, effects | own, value)


def _lessons(
    found: Posterior, effects: Mapping[str, Sequence[str]], value: Callable[[str, float], float]
) -> list[Lesson]:
    lessons = []
    for name, on in effects.items():
        slopes = dict.fromkeys(on, 1.0)
        if not on or not any(effect in of for of in found.gradients for effect in on):
            continue
        change, spread = moved(found, slopes)
        at = sum(found.beliefs.mean_of(effect) for effect in on)
        before, now = value(name, at - change), value(name, at)
        if abs(now / before - 1.0) < LEAST_CHANGE:
            continue
        ends = sorted(value(name, at + side * FOUR_IN_FIVE * spread) for side in (-1, 1))
        lessons.append(
            Lesson(
                constant=name,
                assumed=before,
                value=now,
                interval=(ends[0], ends[1]),
                surprise=abs(change) / spread if spread else 0.0,
            )
        )
    return sorted(lessons, key=lambda lesson: -lesson.surprise)


_TIMES = {
    "matmul_slowdown": "matmuls",
    "prefill_matmul_slowdown": "matmuls over prompts",
    "attention_slowdown": "fused attention kernels",
    "prefill_attention_slowdown": "attention over prompts",
    "decode_attention_slowdown": "attention over the cache",
    "experts_slowdown": "expert matmuls",
    "prefill_experts_slowdown": "expert matmuls over prompts",
    "elementwise_slowdown": "element-wise kernels",
    "prompt_times": "this load's passes with prompts",
    "decode_times": "this load's decode passes",
    PACE: "everything",
}
_HOST = {
    "launch_forward_s": "per forward kernel",
    "launch_backward_s": "per backward kernel",
    "launch_s": "per kernel",
    "micro_batch_s": "per micro-batch",
    "step_s": "per step",
    "iteration_s": "per iteration",
    "sequence_s": "per sequence",
    "prefill_s": "per prefill",
    "prompt_token_s": "per prompt token",
}


def sentence_of(lesson: Lesson) -> str:
    """Return what was learned of a constant in plain words; empty for one that has none."""
    ratio, name = lesson.value / lesson.assumed, lesson.constant
    match name:
        case "collective_slowdown":
            return f"your network reaches {percent(1 / ratio)} of the assumed bandwidth"
        case "synchronization_s":
            return f"ranks wait {_times(ratio)} the assumed time for each other"
        case "vector_unit_bandwidth":
            return f"kernels with few rows read {percent(ratio)} of the assumed bytes per second"
        case "memory_fraction":
            reached, assumed = percent(lesson.value), percent(lesson.assumed)
            return f"element-wise kernels reach {reached} of the memory bandwidth (assumed {assumed})"
    if name in _HOST:
        return f"the host takes {_times(ratio)} the assumed time {_HOST[name]}"
    verb = "takes" if name == PACE else "take"
    return f"{_TIMES[name]} {verb} {_times(ratio)} the assumed time" if name in _TIMES else ""


def _times(ratio: float) -> str:
    return f"{ratio:.2g} x" if ratio >= 2 else f"{ratio:.2f} x"


def sentences_of(lessons: Sequence[Lesson]) -> Iterator[str]:
    """Yield sentences about the constants that moved by more than their noise, the plainest first."""
    told = (sentence_of(lesson) for lesson in lessons if lesson.surprise > 1.0)
    for _, sentence in zip(range(MOST_SENTENCES), filter(None, told), strict=False):
        yield sentence


def sentence_of_anchor(timed: Sequence[tuple[Timed[Any], float]], lessons: Sequence[Lesson]) -> str:
    """Return what was measured against what was expected, and what that taught.

    ``timed`` are measurements, each with the seconds predicted without anchors.
    """
    one, without = timed[0]
    said = (
        f"{one.quantity}: measured {one.seconds:.4g} s, predicted without the anchor {without:.4g} s "
        f"({percent(one.seconds / without - 1, signed=True)})"
    )
    if len(timed) > 1:
        ratios = sorted(each.seconds / seconds for each, seconds in timed)
        ends = f"{ratios[0]:.2f} to {ratios[-1]:.2f} x"
        said = f"{len(timed)} measurements took {ends} the time predicted without them"
    taught = list(sentences_of(lessons))
    if not taught:
        return f"{said}; no constant changed by more than its noise"
    return f"{said}: {', '.join(taught)}"


@record
class Anchored:
    """What anchors taught."""

    anchors: Sequence[Anchor]
    steps: anchored_steps.AnchoredSteps | None = None
    requests: anchored_requests.AnchoredRequests | None = None

    def __repr__(self) -> str:
        """Return a line for each anchor: its name, and what it taught."""
        tasks = [task for task, known in (("training", self.steps), ("generation", self.requests)) if known]
        said = [f"{one['from']}: {one['sentence']}" for task in tasks for one in self.to_dicts(task)]
        return f"Anchored({'; '.join(said)})"

    def predict(self, scenario: Any) -> Profile:
        """Predict a scenario with what was learned.

        Raises:
            InputError: No anchor teaches anything about a scenario of its task.
        """
        self.check(scenario)
        if isinstance(scenario, Scenario):
            answer = predict_step(scenario, known=self.steps)
        else:
            answer = predict_generation(scenario, known=self.requests)
        warnings = (*answer.warnings, *self.warnings(answer.scenario))
        missing = {part: said.removesuffix(ADD_YOUR_OWN) for part, said in answer.missing.items()}
        return answer.replace(anchor=self.to_dicts(task_name(scenario)), warnings=warnings, missing=missing)

    def check(self, scenario: Any) -> None:
        """Refuse a scenario of whose task no anchor measured anything.

        Raises:
            InputError: There is none.
        """
        if isinstance(scenario, OperatorScenario):
            raise InputError("--anchor applies to training, generation and serving, not to single operators")
        task = task_name(scenario)
        if (self.steps if task == "training" else self.requests) is None:
            other = "generation" if task == "training" else "training"
            raise InputError(f"the anchors measured {other}, but the scenario is {task}; use an anchor of {task}")

    def warnings(self, scenario: Answered) -> list[str]:
        """Return a sentence where what is asked for is not what the anchors measured, and what carries over."""
        posterior = self.posterior(task_name(scenario))
        sentences = [
            *posterior.contradictions,
            *self._surprises(posterior),
            *self._of_another_task(task_name(scenario)),
            *(
                f"anchor '{one.name}': {counted(one.out_of_memory, 'measurement')} that ran out of memory left out"
                for one in self.anchors
                if one.out_of_memory
            ),
        ]
        others = [timed.scenario for timed in posterior.timed]
        return sentences + _differences(scenario, others)

    def _of_another_task(self, task: str) -> list[str]:
        """Sentences about anchors that measured nothing of what is asked for."""
        sentences = []
        for anchor in self.anchors:
            measured = {task_name(timed.scenario) for timed in anchor.timed} | (
                {"generation"} if anchor.loads else set()
            )
            if task not in measured:
                sentences.append(
                    f"anchor '{anchor.name}' measured {_listed(measured)} and is ignored for {task}: engines and "
                    "training frameworks share no constants"
                )
        return sentences

    @staticmethod
    def _surprises(posterior: Posterior) -> list[str]:
        """Sentences about anchors that no published cluster resembles."""
        if not posterior.is_surprising:
            return []
        far = [log(timed.seconds) - float(at) for timed, at in zip(posterior.timed, posterior.expected, strict=True)]
        farthest = max(range(len(far)), key=lambda place: abs(far[place]))
        timed = posterior.timed[farthest]
        sentence = (
            f"anchor '{timed.name}' measured {timed.quantity} {float(timed.seconds):.4g} s, {exp(far[farthest]):.2g} x "
            "the predicted time, more than published clusters differ; check that its scenario matches the run and "
            "that the machine was idle; intervals are widened"
        )
        return [sentence]

    def posterior(self, task: str) -> Posterior:
        """Return what is believed after the anchors of a task."""
        known = self.steps if task == "training" else self.requests
        if known is None:
            raise LookupError(f"no anchor measured {task}")
        return known.corrections

    def lessons(self, one: Timed[Any]) -> list[Lesson]:
        """Return what was learned about the constants of an anchor's site."""
        if self.steps is not None and isinstance(one.scenario, Scenario):
            return lessons_of_steps(self.steps, one)
        return [] if self.requests is None else lessons_of_requests(self.requests, one)

    def to_dicts(self, task: str) -> list[dict[str, Any]]:
        """Return the documented ``anchor`` key: an entry for each anchor of a task."""
        posterior = self.posterior(task)
        both = list(zip(posterior.timed, posterior.expected, strict=True))
        entries = []
        for anchor in self.anchors:
            own = [(timed, exp(float(logarithm))) for timed, logarithm in both if timed.name in anchor.names]
            if not own:
                continue
            lessons = self.lessons(own[0][0])
            entries.append(
                {
                    "from": anchor.name,
                    "learned": [lesson.to_dict() for lesson in lessons],
                    "unused": list(anchor.unused),
                    "sentence": sentence_of_anchor(own, lessons),
                }
            )
        return entries


def learn(anchors: Sequence[Anchor]) -> Anchored:
    """Return what anchors teach.

    Raises:
        InputError: Some anchor contradicts physics, or is so far from its prediction that its unit must be wrong.
    """
    timed = [one for anchor in anchors for one in anchor.timed]
    steps = [anchored_steps.with_micro_batch(one) for one in timed if isinstance(one, MeasuredStep)]
    requests = [one for one in timed if isinstance(one.scenario, GenerationScenario)]
    loads = [load for anchor in anchors for load in anchor.loads]
    problems = [*_too_fast(steps, anchored_steps.least_seconds), *_too_fast(requests, anchored_requests.least_seconds)]
    refuse(problems)
    known = Anchored(
        anchors=anchors,
        steps=anchored_steps.learn_steps(steps) if steps else None,
        requests=anchored_requests.learn_requests(requests, loads) if requests or loads else None,
    )
    for of in (known.steps, known.requests):
        plausible.check(None if of is None else of.corrections)
    return known


def _too_fast(timed: Sequence[Timed[Any]], least_seconds: Any) -> list[str]:
    """Return a sentence for each measurement that is faster than physics allows."""
    found = []
    for one in timed:
        least = least_seconds(one)
        if one.seconds < least:
            found.append(
                f"anchor '{one.name}' measured {one.quantity} {one.seconds:.4g} s, but "
                f"{one.scenario.cluster.name or one.scenario.cluster.device.name} needs at least {least:.4g} s "
                "at its peak; check the scenario and the unit"
            )
    return found


def _differences(scenario: Answered, anchors: Sequence[Answered]) -> list[str]:
    """Return sentences about a device, a framework, a release or a network that no anchor was measured with."""
    device, made_by = scenario.cluster.device.name, _made_by(scenario)
    devices, makers = {one.cluster.device.name for one in anchors}, {_made_by(one) for one in anchors}
    found = []
    if device not in devices and made_by not in makers:
        found.append(
            f"anchored with {_listed(makers)} on {_listed(devices)}, predicting {made_by} on {device}: only "
            "corrections common to all frameworks and devices apply"
        )
    elif device not in devices:
        found.append(f"anchored on {_listed(devices)}, predicting {device}: only corrections of {made_by} apply")
    elif made_by not in makers:
        found.append(f"anchored with {_listed(makers)}, predicting {made_by}: only corrections of {device} apply")
    versions = {version for one in anchors if _made_by(one) == made_by and (version := _version(one))}
    if _version(scenario) and versions and _version(scenario) not in versions:
        found.append(
            f"anchored with {made_by} {_listed(versions)}, predicting {_version(scenario)}: corrections of "
            "another release may not apply"
        )
    found += _other_models(scenario, anchors)
    networks = {one.cluster.network.name for one in anchors if one.cluster.nodes > 1}
    if scenario.cluster.nodes > 1 and scenario.cluster.network.name not in networks and device in devices:
        where = _listed(networks) if networks else "one node"
        found.append(f"anchored on {where}: the network between nodes was not measured")
    return found


def _other_models(scenario: Answered, anchors: Sequence[Answered]) -> list[str]:
    """A sentence where no anchor's model is what is asked for, with what carries over and what does not."""
    asked, measured = scenario.model, {one.model.name for one in anchors}
    if asked.name in measured:
        return []
    models = _listed({name or "another model" for name in measured})
    said = f"anchored on {models}, predicting {asked.name or 'a model'}"
    kinds, seen = layer_kinds(asked), {kind for one in anchors for kind in layer_kinds(one.model)}
    carries = "corrections of the host, the network and other kernels apply"
    if unseen := sorted(kinds - seen):
        return [f"{said} with {' and '.join(unseen)}, which was not measured; {carries}"]
    if others := sorted(set.intersection(*(layer_kinds(one.model) for one in anchors)) - kinds):
        return [f"{said} without {' and '.join(others)}, so their corrections do not apply; {carries}"]
    return [f"{said}: {carries.replace('other ', '')}; corrections specific to the measured plans apply only in part"]


def _made_by(scenario: Answered) -> str:
    return scenario.plan.framework.name if isinstance(scenario, Scenario) else scenario.plan.engine.name


def _version(scenario: Answered) -> str:
    return scenario.plan.framework.version if isinstance(scenario, Scenario) else scenario.plan.engine.version


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
