"""What anchors taught, for people and as documented keys: constants that moved, and sentences about the plainest."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp
from typing import Any

from sightline.content import description
from sightline.prediction.anchoring.generation import AnchoredRequests, engine_at_site
from sightline.prediction.anchoring.generation import site_of as site_of_engine
from sightline.prediction.anchoring.posterior import Posterior, moved
from sightline.prediction.anchoring.timed import Timed
from sightline.prediction.anchoring.training import AnchoredSteps, site_of
from sightline.prediction.generation.sites import straying
from sightline.prediction.training.effects import PACE, base_constants, causes_of, effects_on, priors, shifted
from sightline.quantities import FOUR_IN_FIVE, percent
from sightline.scenario import GenerationScenario, Scenario

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
    causes = causes_of(scenario, known.taught.posterior.before, site_of(scenario))
    base = base_constants(scenario)

    def value(name: str, shift: float) -> float:
        return exp(shift) if name == PACE else float(getattr(shifted(scenario, {name: shift}), name))

    names = [name for name in priors() if name == PACE or getattr(base, name)]
    return _lessons(known.taught.posterior, {name: effects_on(name, causes) for name in names}, value)


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
    return _lessons(known.taught.posterior, effects | own, value)


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
