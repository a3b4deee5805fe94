"""A trace of a user's own job explained: where its step goes, what holds it up, and what to change first."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.explanation.answer import Explanation, Limit
from sightline.explanation.traced.advice import advised
from sightline.explanation.traced.figures import Figures, figures_of
from sightline.explanation.traced.sentences import reading
from sightline.progress import SILENT, Progress
from sightline.scenario import Scenario

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored
    from sightline.traces.job import Job


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
    predicted = None
    if scenario is not None:
        from sightline.explanation.traced.model import prediction_of

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
        sentences=reading(figures, predicted),
        warnings=(*figures.warnings, *_doubts(figures, is_cut=job.is_cut)),
        scenario=predicted.scenario if predicted else {},
    )


def _is_whole(job: "Job", figures: Figures) -> bool:
    """Whether all that a step did is recorded; what is missing would be taken for waits."""
    return not (job.is_cut or figures.lacks_kernels or figures.is_predicted)


def _doubts(figures: Figures, *, is_cut: bool) -> Iterator[str]:
    """What makes the figures less than those of a step."""
    if figures.is_predicted:
        yield (
            "the trace is the timeline of a prediction, which tells less than the prediction itself, so no change is "
            "advised: sightline explain the scenario"
        )
    if is_cut:
        yield "events behind the cut are missing and count as waits, so no change is advised: record the trace again"
    elif figures.lacks_kernels:
        yield (
            "kernels are launched but none is recorded, so only the host's operators are known and no change is "
            "advised: record ProfilerActivity.CUDA, with no other profiler running"
        )
    elif figures.device and not figures.has_device:
        yield (
            f"no kernel of the {figures.device} is recorded; if the job ran there, its operators only launch kernels: "
            "record ProfilerActivity.CUDA too"
        )
    if not figures.has_steps:
        yield (
            "the trace has no ProfilerStep annotations, so all of it counts as one step; call profiler.step() after "
            "each step to see steps"
        )


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
