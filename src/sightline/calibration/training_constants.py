"""What training frameworks reach beyond single operators, estimated from measured steps of many series at once.

Effects of all frameworks, of devices, of frameworks and of sites are estimated together (partial pooling): what few
steps show of a device or a framework stays near what all others show. An effect is estimated only where enough
different steps depend on it; otherwise it stays unknown and widens the interval.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace

import numpy as np

from sightline.calibration.error_figures import conformal_spread, error_statistics
from sightline.calibration.fits import FitResult
from sightline.calibration.from_tables import Calibration
from sightline.calibration.parts.part import PartFit
from sightline.catalog import entry
from sightline.content import content
from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.prediction.anchoring.timed import MeasuredStep
from sightline.prediction.beliefs import Array, Beliefs, Gradient, Predict, learned
from sightline.prediction.training.constants import ANY, NOTHING, believed_constants, gradient, priors, shipped_beliefs
from sightline.prediction.training.step_profile import profile_of, with_fastest_micro_batch
from sightline.quantities import significant
from sightline.runs import Run
from sightline.scenario import Scenario

FEWEST_STEPS = 5
"""Different steps that an effect is estimated from, at least."""
MOVED = 0.1
"""Part of a constant's relative change that a step's time shows, at least, to count among them."""
ARRAY_ELEMENTS = 64
"""Elements of an array that two steps are told apart by, at most."""
FULL_WEIGHT = 100
"""Steps of one site that count in full; more share that weight, for they repeat what others of the site show."""


def predictor(steps: Sequence[MeasuredStep], kept: Callable[[str], bool] = lambda _: True) -> Predict:
    """Return what predicts the steps' logarithms and their gradients, as far as effects are ``kept``."""

    def predict(beliefs: Beliefs) -> tuple[Array, Sequence[Gradient]]:
        found = [gradient(step.seconds_with, step.scenario, beliefs, step.site) for step in steps]
        kept_only: list[Gradient] = [
            {name: slope for name, slope in slopes.items() if kept(name)} for _, slopes in found
        ]
        return np.array([logarithm for logarithm, _ in found]), kept_only

    return predict


def logarithms(steps: Iterable[MeasuredStep]) -> Array:
    """Return the logarithms of the measured seconds."""
    return np.log([step.seconds for step in steps])


def noise_of(steps: Sequence[MeasuredStep]) -> Array:
    """Return the covariance of what effects do not explain: larger where a site has many steps."""
    count = Counter(step.site for step in steps)
    case = entry("training", "constants")["case"]
    return np.diag([case**2 * max(1.0, count[step.site] / FULL_WEIGHT) for step in steps])


def estimated(steps: Sequence[MeasuredStep], gradients: Sequence[Gradient]) -> set[str]:
    """Return the effects that enough different steps depend on, and all of sites."""
    telling = telling_steps(steps, gradients)
    return {name for name in set().union(*gradients) if of_site(name) or telling.get(name, 0) >= FEWEST_STEPS}


def telling_steps(steps: Sequence[MeasuredStep], gradients: Sequence[Gradient]) -> dict[str, int]:
    """Return how many different steps depend on each effect that any step depends on."""
    telling: dict[str, set[tuple[str, Hashable]]] = defaultdict(set)
    for step, slopes in zip(steps, gradients, strict=True):
        for name, slope in slopes.items():
            if abs(slope) >= MOVED * _scale(name):
                telling[name].add((step.site, content(step.scenario, ARRAY_ELEMENTS)))
    return {name: len(told) for name, told in telling.items()}


def _scale(effect: str) -> float:
    """How far a constant's logarithm moves with its effect."""
    prior = priors()[effect.split("/", maxsplit=1)[0]]
    return 1 - prior.value if prior.fraction else 1.0


def of_site(effect: str) -> bool:
    """Say whether an effect is a site's own: random, and no constant of anybody else."""
    return effect.split("/")[1] == "site"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """What measured steps teach of effects, and what is needed to leave some of them out."""

    steps: Sequence[MeasuredStep]
    beliefs: Beliefs
    predicted: Array
    gradients: Sequence[Gradient]
    """Logarithms of the predictions and their slopes at the beliefs' means."""

    def without(self, left_out: Callable[[MeasuredStep], bool]) -> Beliefs:
        """Return what the other steps teach, linear around what all teach."""
        kept = [not left_out(step) for step in self.steps]
        steps = [step for step, keep in zip(self.steps, kept, strict=True) if keep]
        slopes = [slope for slope, keep in zip(self.gradients, kept, strict=True) if keep]
        free = estimated(steps, slopes)
        told = [{name: s for name, s in slope.items() if name in free} for slope in slopes]
        return learned(
            NOTHING,
            lambda _: (self.predicted[kept], told),
            logarithms(steps),
            noise_of(steps),
            starts=(self.beliefs,),
            robust=True,
            rounds=1,
        )


SLOW_HOSTS = (
    {"launch_forward_s": 1.0, "launch_backward_s": 1.0, "micro_batch_s": 1.0, "step_s": 1.0, "synchronization_s": 1.0},
    {"micro_batch_s": 2.5},
)
"""Effects of all frameworks where searches start: a host that never binds has no gradient."""


def estimate(steps: Sequence[MeasuredStep]) -> Estimate:
    """Return what is believed of all effects that ``steps`` tell of.

    An effect that too few steps tell of where the search ends is left unknown, and the search goes on from there.
    """
    starts = [_slow(effects) for effects in SLOW_HOSTS]
    free = set[str]().union(*(estimated(steps, predictor(steps)(start)[1]) for start in (NOTHING, *starts)))
    while True:
        found = _searched(steps, free, starts)
        telling = free & estimated(steps, found.gradients)
        if telling == free:
            return found
        free, starts = telling, [found.beliefs]


def _searched(steps: Sequence[MeasuredStep], free: AbstractSet[str], starts: Sequence[Beliefs]) -> Estimate:
    """Where the best of the searches from ``starts`` over ``free`` effects ends."""
    # Devices without effects of their own have those of a relative, once it is known which have some.
    prior = NOTHING.with_effects(sorted(free))
    beliefs = learned(
        prior,
        predictor(steps, free.__contains__),
        logarithms(steps),
        noise_of(steps),
        starts=[replace(prior, mean=np.array([start.mean_of(name) for name in prior.names])) for start in starts],
        robust=True,
    )
    predicted, gradients = predictor(steps)(beliefs)
    return Estimate(steps=steps, beliefs=beliefs, predicted=predicted, gradients=gradients)


def _slow(effects: Mapping[str, float]) -> Beliefs:
    """Nothing but these effects of all frameworks."""
    names = NOTHING.with_effects([f"{name}/all/" for name in effects])
    return replace(names, mean=np.array(list(effects.values())))


TRAINING_TASKS = ("pretrain", "finetune")


def measured_steps(runs: Iterable[Run]) -> list[MeasuredStep]:
    """Return the training steps in runs that ended well; raises `InputError` where a scenario no longer loads."""
    return [
        MeasuredStep(scenario=scenario_from_mapping(run.scenario), seconds=float(run.result["step_time_s"]))
        for run in runs
        if run.status == "ok"
        and (run.scenario.get("workload") or {}).get("task") in TRAINING_TASKS
        and "step_time_s" in run.result
    ]


def _with_micro_batch(scenario: Scenario) -> Scenario:
    return scenario if scenario.plan.micro_batch is not None else with_fastest_micro_batch(scenario, profile_of)


def calibrate_training(steps: Sequence[MeasuredStep], source: str) -> Calibration:
    """Return the training constants of the one device and framework that ``steps`` were measured on.

    What few steps cannot tell stays near what is believed of the device and the framework.

    Raises:
        InputError: the steps are of several devices or frameworks.
    """
    steps = [replace(step, scenario=_with_micro_batch(step.scenario)) for step in steps]
    first = steps[0].scenario
    for what, names in (
        ("devices", {s.scenario.cluster.device.name for s in steps}),
        ("frameworks", {s.scenario.plan.framework.name for s in steps}),
    ):
        if len(names) > 1:
            raise InputError(
                f"--from-run: the runs have {len(names)} {what}, {', '.join(sorted(names))}; give runs of one"
            )
    found = learned(shipped_beliefs(), predictor(steps), logarithms(steps), noise_of(steps))
    fitted = believed_constants(first, found)
    predicted = np.array([float(step.seconds_with(fitted)) for step in steps])
    seconds = np.exp(logarithms(steps))
    constants = {name: significant(value) for name, value in asdict(fitted).items()}
    constants["spread"] = conformal_spread(np.abs(np.log(predicted / seconds)))
    result = FitResult(
        constants=constants, rows={"fitted": len(steps)}, residuals={"fit": error_statistics(predicted, seconds)}
    )
    chosen = {"evidence": "calibrated", "source": source, **constants}
    framework = first.plan.framework.name
    fit = PartFit(content={"frameworks": {framework: chosen, ANY: chosen}}, fits={framework: result})
    return Calibration(device=first.cluster.device.name, part="training", fit=fit, source=source, covered={})
