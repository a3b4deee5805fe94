"""A trace of a user's own job explained: where its step goes, what holds it up, and what to change first."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.explanation.answer import Advice, Explanation, Limit
from sightline.explanation.traced.advice import Fault, advised
from sightline.explanation.traced.step_figures import Figures, figures_of, reading
from sightline.prediction.changes import seconds
from sightline.profile import Profile, Row
from sightline.progress import SILENT, Progress
from sightline.scenario import Scenario

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored
    from sightline.traces.job import Job

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
        found = [f"The predicted step takes {seconds(whole)}; the traced step takes {ratio:.2f} x that."]
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
                found.append(f"Largest differences by {level}: {', '.join(listed)}.")
        return found

    @property
    def compiles(self) -> bool:
        """Whether the framework of the scenario has a compiler; engines of generation have CUDA graphs as well."""
        framework = getattr(getattr(self.profile.scenario, "plan", None), "framework", None)
        return framework is None or True in framework.offers.get("compile", ())

    def faults(self, figures: Figures) -> list[Fault]:
        """Return changes of the plan; the share of the step that each saves in the prediction is taken of the trace."""
        return [
            Fault(
                one.gain * figures.whole_s,
                f"{one.sentence} Predicted and scaled to the traced step.",
                dict(one.set),
                one.command,
            )
            for one in self.advice
        ]


def prediction_of(scenario: Scenario, figures: Figures, known: "Anchored | None" = None) -> Predicted:
    """Return the prediction of a scenario, and changes that would help it, predicted with the trace as an anchor."""
    from sightline.explanation.explain import explain_prediction
    from sightline.explanation.reading import answer
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
    from sightline.anchors.corrected import anchored

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


def explain_trace(
    paths: Sequence[str | Path],
    *,
    scenario: Scenario | None = None,
    known: "Anchored | None" = None,
    progress: Progress = SILENT,
) -> Explanation:
    """Return the explanation of a job by its traces, one file per rank, or folders of them.

    Figures are of a step, averaged over the steps that count and over ranks; without ``ProfilerStep`` annotations the
    whole trace counts as one step.

    Args:
        paths: Files that ``torch.profiler`` exported (Kineto JSON, may be packed by gzip), or folders.
        scenario: What ran, where it is known: changes of its plan are then predicted, and gaps to the prediction named.
        known: What was learned from anchors, for these predictions.
        progress: Told how far reading is.

    Raises:
        InputError: A file is missing, too large, or no trace.
    """
    from sightline.traces.job import read_job

    job = read_job(paths, progress)
    figures = figures_of(job)
    if not job.is_sound:  # the kernels that are left tell neither where a step goes nor what holds it up
        figures = replace(figures, limits={}, phases={}, rows=(), reasons={}, overlapped_s=0.0)
    predicted = None
    if scenario is not None:
        predicted = prediction_of(scenario, figures, known)
    return Explanation(
        title=_title(paths, figures),
        source="predicted" if figures.is_predicted else "measured",
        whole="step_time_s",
        whole_s=figures.whole_s,
        phases=figures.phases,
        limits=_limits(figures),
        rows=figures.rows,
        advice=advised(figures, predicted) if _is_whole(job, figures) else (),
        exposed_communication_s=figures.communication_s,
        hidden_communication_s=figures.overlapped_s,
        bubble_s=figures.limits.get("bubble", 0.0),
        unmatched_s=figures.limits.get("unmatched", 0.0),
        launch_bound_s=figures.limits.get("launches", 0.0),
        input_wait_s=figures.limits.get("input", 0.0),
        sentences=reading(figures, predicted) if job.is_sound else (),
        warnings=(*figures.warnings, *_doubts(job, figures)),
        scenario=predicted.scenario if predicted else {},
    )


def _is_whole(job: "Job", figures: Figures) -> bool:
    """Whether all that a step did is recorded; what is missing would be taken for waits."""
    return job.is_sound and not (job.is_cut or figures.lacks_kernels or figures.is_predicted)


def _doubts(job: "Job", figures: Figures) -> Iterator[str]:
    """What makes the figures less than those of a step."""
    if figures.is_predicted:
        yield ("the trace is the timeline of a prediction, so no change is recommended; explain the scenario instead")
    if job.is_cut:
        yield (
            "the trace is cut off and missing events count as waits, so no change is recommended; record the "
            "trace again"
        )
    elif figures.lacks_kernels:
        yield (
            "kernels are launched but not recorded, so no change is recommended; record ProfilerActivity.CUDA "
            "with no other profiler running"
        )
    elif not job.is_sound:
        yield "no step has all its kernels, so the figures are doubtful and no change is recommended"
    elif figures.device and not figures.has_device:
        yield (
            f"no kernel of the {figures.device} is recorded; if the job ran there, also record ProfilerActivity.CUDA"
        )
    if not figures.has_steps:
        yield ("the trace has no ProfilerStep annotations and counts as one step; call profiler.step() after each step")


def _title(paths: Sequence[str | Path], figures: Figures) -> str:
    name = Path(paths[0]).name if len(paths) == 1 else f"{Path(paths[0]).name} and {len(paths) - 1} more"
    return f"{name}, {figures.device}" if figures.has_device and figures.device else name


def _limits(figures: Figures) -> list[Limit]:
    """The limits with the largest first; each alone would leave what it takes."""
    whole = figures.whole_s
    ordered = sorted(figures.limits.items(), key=lambda item: (-item[1], item[0]))
    return [
        Limit(limit=name, time_s=time_s, share=time_s / whole if whole else 0.0) for name, time_s in ordered if time_s
    ]
