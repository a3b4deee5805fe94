"""What the model predicts for the scenario that a trace is of: gaps by phase and module, and gains of changes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sightline.explanation.answer import Advice
from sightline.explanation.traced.fault import Fault
from sightline.explanation.traced.figures import Figures
from sightline.prediction.changes import seconds
from sightline.profile import Profile, Row
from sightline.scenario import Scenario

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored


_MOST, _WORTH = 3, 0.02
"""Phases and modules that are named, and the share of the step by which they have to differ."""
_NAMES: Mapping[str, str] = {
    "qkv": "attention projections",
    "output projection": "attention projections",
    "attention norm": "norm",
    "mlp norm": "norm",
    "final norm": "norm",
}
"""What a trace calls modules that a prediction tells apart."""


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
        pairs = (
            ("phases", _phases(self.profile.phases), _phases(figures.phases)),
            ("modules", _modules(self.profile.rows), _modules(figures.rows)),
        )
        for level, ours, traced in pairs:
            # A module that only one of them names is not missing in the other: names of modules are a matter of frames.
            names = ours.keys() | traced.keys() if level == "phases" else ours.keys() & traced.keys()
            apart = {name: traced.get(name, 0.0) - ours.get(name, 0.0) for name in names}
            listed = [
                f"{name.replace('_', ' ')} {seconds(traced.get(name, 0.0))} instead of {seconds(ours.get(name, 0.0))}"
                for name in sorted(apart, key=lambda one: (-abs(apart[one]), one))[:_MOST]
                if abs(apart[name]) > _WORTH * figures.whole_s
            ]
            if listed:
                found.append(f"Farthest from the prediction are of the {level} {', '.join(listed)}.")
        return found

    def faults(self, figures: Figures) -> list[Fault]:
        """Return changes of the plan; the share of the step that each saves in the prediction is taken of the trace."""
        return [
            Fault(
                one.gain * figures.whole_s,
                f"{one.sentence} That is predicted, and scaled to the traced step.",
                dict(one.set),
                one.command,
            )
            for one in self.advice
        ]


def prediction_of(scenario: Scenario, figures: Figures, known: "Anchored | None" = None) -> Predicted:
    """Return the prediction of a scenario, and changes that would help it, predicted with the trace as an anchor."""
    from sightline.explanation.advice import answer
    from sightline.explanation.explain import explain_prediction
    from sightline.explanation.subject import Subject
    from sightline.loading import to_mapping

    profile = answer(scenario, known)
    taught = known if known is not None else _taught(scenario, figures)
    explained = explain_prediction(Subject(scenario=scenario), taught)
    return Predicted(profile=profile, scenario=to_mapping(scenario), advice=explained.advice)


def _taught(scenario: Scenario, figures: Figures) -> "Anchored | None":
    """What the traced step says of the job's own cluster; without steps, or of other than training, nothing."""
    if scenario.workload.task not in ("pretrain", "finetune") or not figures.has_steps:
        return None
    from sightline.anchors import anchored

    return anchored([replace(scenario, measured={"step_time_s": figures.whole_s}, name="the trace")])


def _phases(phases: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by phase, with the names that traces and predictions share."""
    found: dict[str, float] = defaultdict(float)
    for name, time_s in phases.items():
        found["host" if name == "launches" else name] += float(time_s)
    return found


def _modules(rows: Sequence[Row]) -> dict[str, float]:
    """Exposed seconds by module."""
    found: dict[str, float] = defaultdict(float)
    for row in rows:
        found[_NAMES.get(row.module, row.module)] += float(row.exposed_s)
    return found
