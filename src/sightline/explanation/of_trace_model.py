"""What the model predicts for the scenario that a trace is of: gaps by phase and module, and gains of changes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.explanation.answer import Advice
from sightline.explanation.of_trace_advice import Fault
from sightline.explanation.of_trace_figures import Figures
from sightline.explanation.reasons import seconds
from sightline.profile import Profile
from sightline.scenario import Scenario

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A prediction of the traced job, and the changes that would help it."""

    profile: Profile
    scenario: Mapping[str, Any]
    advice: Sequence[Advice]

    def gaps(self, figures: Figures) -> list[str]:
        """Return how far the trace is from the prediction: the whole, and the phases farthest from it."""
        whole = float(self.profile.whole_s or 0.0)
        if not whole:
            return []
        ratio = figures.whole_s / whole
        found = [f"The prediction for the scenario is {seconds(whole)}; the traced step takes {ratio:.2f} x as long."]
        ours = _phases(self.profile.phases)
        traced = _phases(figures.phases)
        apart = sorted(ours.keys() | traced.keys(), key=lambda name: -abs(traced[name] - ours[name]))
        listed = [
            f"{name.replace('_', ' ')} {seconds(traced[name])} instead of {seconds(ours[name])}"
            for name in apart[:3]
            if abs(traced[name] - ours[name]) > 0.02 * figures.whole_s
        ]
        if listed:
            found.append(f"Farthest from the prediction: {', '.join(listed)}.")
        return found

    def faults(self, figures: Figures) -> list[Fault]:
        """Return changes of the plan; the share of the step that each saves in the prediction is taken of the trace."""
        return [
            Fault(
                one.gain * figures.whole_s,
                f"{one.sentence} That is predicted, and scaled to the traced step.",
                dict(one.set),
            )
            for one in self.advice
        ]


def prediction_of(scenario: Scenario, known: "Anchored | None" = None) -> Predicted:
    """Return the prediction of a scenario and of the changes that would help it."""
    from sightline.explanation.explain import explain_prediction
    from sightline.explanation.subject import Subject, subject_of
    from sightline.runs import open_store

    subject = subject_of(scenario, (), open_store(None))
    if not isinstance(subject, Subject):
        raise TypeError(scenario)
    explained = explain_prediction(subject, known)
    if explained.answer is None:
        raise TypeError(explained)
    return Predicted(profile=explained.answer, scenario=explained.scenario, advice=explained.advice)


def _phases(phases: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by phase, with the names that traces and predictions share."""
    found: dict[str, float] = defaultdict(float)
    for name, time_s in phases.items():
        found["host" if name == "launches" else name] += float(time_s)
    return found
