"""All ranks' traces of a job, read and taken apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sightline.errors import InputError
from sightline.progress import SILENT, Progress
from sightline.traces.activity import activity_of
from sightline.traces.breakdown import Breakdown, breakdown
from sightline.traces.events import Trace
from sightline.traces.files import MOST, by_device, read_trace, trace_files
from sightline.traces.soundness import sound
from sightline.traces.step_edges import steps_of
from sightline.traces.waits import Matched, has_stages, matched

_LISTED = 3
"""Steps left out that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every rank's step goes to, and how ranks wait for each other."""

    ranks: Sequence[Breakdown]
    matched: Matched
    warnings: Sequence[str]
    is_cut: bool = False
    """Whether events of a rank are missing; what they did counts as waits."""
    is_sound: bool = True
    """Whether each rank has a step of which every kernel is possible and none is missing."""


def read_job(paths: Sequence[str | Path], progress: Progress = SILENT) -> Job:
    """Return the job of some files or folders, the ranks in order.

    Raises:
        InputError: One of them is no trace, or two are of the same rank.
    """
    files = trace_files(paths)
    traces = [trace for file in files[:MOST] for trace in by_device(sound(read_trace(file, progress)))]
    _check_ranks(traces)
    traces.sort(key=lambda trace: (trace.rank is None, trace.rank or 0, trace.path))
    warnings = [warning for trace in traces for warning in trace.warnings]
    if len(files) > MOST:
        warnings.append(f"the first {MOST} of {len(files)} traces are read")
    activities = [activity_of(trace) for trace in traces]
    shared = matched(traces, activities)
    parts = zip(traces, activities, shared.waits, strict=True)
    staged = has_stages(traces, activities)
    ranks = [breakdown(trace, activity, steps_of(trace), waits, has_stages=staged) for trace, activity, waits in parts]
    left_out = {(rank.trace.path, step): None for rank in ranks for step in rank.steps.left_out}
    for path in dict.fromkeys(path for path, _ in left_out):
        steps = [step for of, step in left_out if of == path]
        listed = ", ".join(steps[:_LISTED]) + (f" and {len(steps) - _LISTED} more" if len(steps) > _LISTED else "")
        warnings.append(f"left out of '{path}': {listed}")
    return Job(
        ranks=ranks,
        matched=shared,
        warnings=warnings,
        is_cut=any(trace.is_cut for trace in traces),
        is_sound=all(rank.steps.is_sound for rank in ranks),
    )


def _check_ranks(traces: Sequence[Trace]) -> None:
    """Raise `InputError` where two files are of one rank: they are of two jobs, or of two stretches of one."""
    files: dict[int, str] = {}
    for trace in traces:
        if trace.rank is not None and files.setdefault(trace.rank, trace.path) != trace.path:
            raise InputError(
                f"'{files[trace.rank]}' and '{trace.path}' are both of rank {trace.rank}: name one trace for each rank "
                "of one job"
            )
