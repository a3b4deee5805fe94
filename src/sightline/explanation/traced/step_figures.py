"""Figures of a traced step, means over ranks in seconds, and what they say in plain sentences."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.prediction.changes import seconds
from sightline.profile import Row
from sightline.quantities import percent
from sightline.traces.breakdown import Breakdown, Reason
from sightline.traces.findings import (
    LongSteps,
    SlowCollective,
    SmallProducts,
    long_steps,
    share_in_forward,
    slow_collective,
    small_products,
)
from sightline.traces.job import Job
from sightline.traces.waits import ON_PROCESSOR

if TYPE_CHECKING:
    from sightline.explanation.traced.traced_step import Predicted

_LIMITS: Mapping[Reason, str] = {
    Reason.IMBALANCE: "imbalance",
    Reason.BUBBLE: "bubble",
    Reason.TRANSFERS: "transfers",
    Reason.NETWORK: "network",
    Reason.INPUT: "input",
    Reason.OFFLOAD: "offload",
    **dict.fromkeys((Reason.TO_HOST, Reason.STARTING, Reason.SYNCHRONIZATION, Reason.HOST), "host"),
    Reason.LAUNCHES: "launches",
    Reason.IDLE: "idle",
}
_NAMED = 0.1
"""Share of the waits for the host from which on the longest call in them is named."""
_WAITS = re.compile("^(cuda|hip)StreamWaitEvent")
_PHASES: Mapping[str, str] = {
    "network": "communication_exposed",
    "transfers": "communication_exposed",
    "bubble": "pipeline_bubble",
}
"""Phases that results name otherwise than limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFigures:
    """One rank's step in seconds."""

    rank: str
    compute_s: float
    waiting_s: float
    """In collectives that others have not reached."""
    behind_s: float
    """By which it reaches a step's collectives later than the mean of all ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A step in seconds, the mean over steps that count and over ranks."""

    whole_s: float
    limits: Mapping[str, float]
    phases: Mapping[str, float]
    rows: Sequence[Row]
    reasons: Mapping[Reason, float]
    unmatched: Mapping[str, float]
    """Seconds of kernels that match nothing, by name."""
    launches: float
    """Kernels of a step, without a device operators."""
    steps: int
    """Steps that count, of ``all_steps``."""
    all_steps: int
    has_steps: bool
    shortest_s: float
    longest_s: float
    ranks: Sequence[RankFigures]
    late_for_input_s: float
    """Waits for a rank that comes late because it waits for input, which count as waits for input."""
    slow: SlowCollective | None
    """A collective that takes far longer than the others of its kind and size, or than its bytes need."""
    world_size: int
    """Ranks of the job, of which not all may be given."""
    collectives: int
    """Collectives that were compared between ranks."""
    is_predicted: bool
    """Whether the trace is the timeline of a prediction."""
    has_device: bool
    """Whether any kernel of a device is recorded."""
    lacks_kernels: bool
    """Whether none is although the host launches some."""
    device: str
    """Name of the machine's devices, used or not; empty if it has none."""
    device_memory_bytes: int | None
    products: SmallProducts | None
    """Matrix products that are too small to keep the device busy."""
    pageable_s: float
    """Seconds of a step's copies out of memory that is not pinned."""
    pageable_others_s: float
    """The same without copies of the input."""
    long: LongSteps | None
    """Steps that take longer than the others."""
    long_parts: Mapping[str, float]
    """Seconds that the long steps add to the mean step, by limit; what kernels take is ``compute``."""
    stream_waits: float
    """Times a step that a stream is told to wait for an event."""
    cpu_optimizer: str
    """The operator of an optimizer that updates on the processor; empty if none."""
    has_buckets: bool
    """Whether DistributedDataParallel all-reduces gradients, which it does in buckets."""
    reduced_in_forward: float
    """Share of the time of all-reduces that is of those inside of the forward pass."""
    overlapped_s: float
    """Seconds of communication that compute hides."""
    slow_call: str
    """The host's call or operator that the device waits for longest where the host launches nothing; empty if none."""
    warnings: Sequence[str]

    @property
    def communication_s(self) -> float:
        """Exposed communication, waits for other ranks, and in sends and receives, left out."""
        return self.limits.get("network", 0.0)

    @property
    def trains(self) -> bool:
        """Whether there is a backward pass."""
        return self.phase_s("backward") > 0

    def phase_s(self, *names: str) -> float:
        """Seconds of some phases."""
        return sum(self.phases.get(name, 0.0) for name in names)

    def module_s(self, module: str, *operators: str) -> float:
        """Seconds that a module adds to the step, or some operators of it."""
        return sum(
            float(r.exposed_s) for r in self.rows if r.module == module and (not operators or r.operator in operators)
        )


def figures_of(job: Job) -> Figures:
    """Return the figures of a job's traces."""
    count, first = len(job.ranks), job.ranks[0]
    share = 1e-9 / count
    reasons = {one: sum(float(rank.reasons[one]) for rank in job.ranks) * share for one in Reason}
    late = _late_for_input(job, reasons)
    reasons[Reason.IMBALANCE] -= late
    reasons[Reason.INPUT] += late
    rows, unmatched = _rows(job.ranks, share)
    lengths = [float(rank.steps.lengths[place]) / 1e9 for rank in job.ranks for place in rank.steps.counted]
    return Figures(
        whole_s=sum(rank.whole_ns for rank in job.ranks) * share,
        limits=_limits(reasons, rows, unmatched),
        phases=_phases(reasons, rows),
        rows=rows,
        reasons=reasons,
        unmatched=unmatched,
        launches=sum(rank.launches for rank in job.ranks) / count,
        steps=len(first.steps.counted),
        all_steps=len(first.steps.lengths),
        has_steps=first.steps.are_named,
        shortest_s=min(lengths),
        longest_s=max(float(rank.steps.lengths.max()) / 1e9 for rank in job.ranks),
        ranks=[_of_rank(job, place) for place in range(count)],
        late_for_input_s=late,
        slow=slow_collective(job.ranks),
        world_size=first.trace.world_size or 1,
        collectives=job.matched.collectives,
        is_predicted=first.trace.is_predicted,
        has_device=first.trace.has_device,
        lacks_kernels=first.trace.lacks_kernels,
        device=first.trace.device_name,
        device_memory_bytes=first.trace.device_memory_bytes,
        products=small_products(job.ranks),
        pageable_s=sum(rank.activity.pageable_s / len(rank.steps.lengths) for rank in job.ranks) / count,
        pageable_others_s=sum(rank.pageable_ns for rank in job.ranks) * share,
        long=(long := long_steps(job.ranks)),
        long_parts=_parts(long),
        stream_waits=float(first.trace.matching(_WAITS.search).sum()) / len(first.steps.lengths),
        cpu_optimizer=next((name for name in first.trace.names if ON_PROCESSOR.search(name)), ""),
        has_buckets=any("DistributedDataParallel" in name for name in first.trace.names),
        reduced_in_forward=share_in_forward(job.ranks),
        overlapped_s=sum(rank.hidden_ns for rank in job.ranks) * share,
        slow_call=_slow_call(first),
        warnings=job.warnings,
    )


def _slow_call(rank: Breakdown) -> str:
    """The call that the device waits for longest, if that is a good part of all waits for the host."""
    name = max(rank.slow_calls, key=lambda one: rank.slow_calls[one], default="")
    waits = float(rank.by_step[rank.steps.counted][:, [Reason.SYNCHRONIZATION, Reason.HOST]].sum())
    return name if name and rank.slow_calls[name] > _NAMED * waits else ""


def _late_for_input(job: Job, reasons: Mapping[Reason, float]) -> float:
    """Waits in collectives for the rank that comes last, as far as it waits longer for its input than the others."""
    inputs = [float(rank.reasons[Reason.INPUT]) / 1e9 for rank in job.ranks]
    behind = job.matched.behind_s
    slowest = max(range(len(inputs)), key=lambda place: behind[place])
    return min(reasons[Reason.IMBALANCE], max(inputs[slowest] - reasons[Reason.INPUT], 0.0))


def _parts(long: LongSteps | None) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    if long is not None:
        for reason in Reason:
            found[_LIMITS.get(reason, "compute")] += float(long.reasons_ns[reason]) / 1e9
    return dict(found)


def _of_rank(job: Job, place: int) -> RankFigures:
    rank = job.ranks[place]
    number = rank.trace.rank if rank.trace.rank is not None else place
    return RankFigures(
        rank=str(number),
        compute_s=float(rank.reasons[Reason.COMPUTE]) / 1e9,
        waiting_s=float(rank.reasons[Reason.IMBALANCE]) / 1e9,
        behind_s=job.matched.behind_s[place] / len(rank.steps.lengths),
    )


def _rows(ranks: Sequence[Breakdown], share: float) -> tuple[list[Row], dict[str, float]]:
    """Rows by phase, module and operator, the longest first; and seconds of names that match nothing."""
    sums: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0] * 5)
    unmatched: dict[str, float] = defaultdict(float)
    for rank in ranks:
        columns = (rank.counts, rank.flops, rank.bytes, rank.run_ns, rank.exposed_ns)
        scales = (*(1.0 / len(ranks),) * 3, share, share)
        figures = zip(*((scale * column).tolist() for column, scale in zip(columns, scales, strict=True)), strict=True)
        for key, values in zip(rank.keys, figures, strict=True):
            *_, run, exposed = values
            if not run:
                continue
            is_unmatched = key.work.bound == "unmatched"
            phase = "communication" if key.work.bound == "network" else key.phase
            address = (phase, key.work.module, "unmatched" if is_unmatched else key.work.operator, key.work.bound)
            for place, value in enumerate(values):
                sums[address][place] += value
            if is_unmatched:
                unmatched[key.name] += exposed
    rows = [
        Row(
            phase=phase,
            block="",
            module=module,
            operator=operator,
            count=count,
            flops=flops,
            # Kernels that only go on with what others began say nothing of their own.
            bytes=0.0 if bound == "network" else moved or math.nan,
            time_s=run,
            exposed_s=max(exposed, 0.0),
            bound="host" if bound == "unmatched" else bound,
            bound_level={"memory": "dram", "unmatched": ""}.get(bound, bound),
        )
        for (phase, module, operator, bound), (count, flops, moved, run, exposed) in sums.items()
    ]
    return sorted(rows, key=lambda row: (-float(row.exposed_s), row.phase, row.module, row.operator)), dict(unmatched)


def _limits(reasons: Mapping[Reason, float], rows: Sequence[Row], unmatched: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for reason, name in _LIMITS.items():
        found[name] += reasons[reason]
    found["unmatched"] = sum(unmatched.values())
    found["memory"] = sum(float(r.exposed_s) for r in rows if r.bound == "memory")
    # What is left of the instants at which kernels run, so that nothing is lost to rounding.
    found["compute"] = max(reasons[Reason.COMPUTE] - found["memory"] - found["unmatched"], 0.0)
    return dict(found)


def _phases(reasons: Mapping[Reason, float], rows: Sequence[Row]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for row in rows:
        if row.phase != "communication":
            found[row.phase] += float(row.exposed_s)
    for reason, name in _LIMITS.items():
        found[_PHASES.get(name, name)] += reasons[reason]
    return {name: time_s for name, time_s in found.items() if time_s > 0}


SPENT = {
    "compute": "kernels bound by compute",
    "memory": "kernels bound by memory",
    "network": "exposed communication",
    "imbalance": "waits for slower ranks",
    "bubble": "waits for other pipeline stages",
    "transfers": "sends and receives slower than the fastest of their type",
    "input": "waits for input",
    "offload": "copies from host memory",
    "launches": "waits for the host to launch kernels",
    "host": "waits for the host",
    "unmatched": "unknown kernels",
    "idle": "unexplained gaps",
}
_ON_PROCESSOR = {
    "compute": "operators bound by compute",
    "memory": "operators bound by memory",
    "launches": "calls of small operators",
    "host": "time without operators",
    "unmatched": "unknown operators",
}
"""The same of a job that has no accelerator, where they differ."""
_WORTH = 0.01
"""Share of the step from which on something is told."""
_UNEVEN = 1.3
"""Longest over shortest step from which on steps are called uneven."""


def reading(figures: Figures, predicted: "Predicted | None" = None) -> list[str]:
    """Return the reading of a traced step: what it takes, what it goes to, what is unknown, gaps to a prediction."""
    found = [
        _whole(figures),
        *_spent(figures),
        *_recomputation(figures),
        *_communication(figures),
        *_slow(figures),
        *_unmatched(figures),
        *_uneven(figures),
    ]
    return [*found, *(predicted.gaps(figures) if predicted else ())]


def _whole(figures: Figures) -> str:
    ranks = f", the mean of {len(figures.ranks)} ranks" if len(figures.ranks) > 1 else ""
    if not figures.has_steps:
        return f"The whole trace takes {seconds(figures.whole_s)}{ranks}."
    of = f" of {figures.all_steps}" if figures.all_steps != figures.steps else ""
    several = f"the mean of {figures.steps}{of} steps" if figures.steps > 1 else "one step"
    return f"A step takes {seconds(figures.whole_s)} ({several}{ranks})."


def _spent(figures: Figures) -> Iterator[str]:
    whole = figures.whole_s
    ordered = sorted(figures.limits.items(), key=lambda item: -item[1])
    parts = [f"{spent(figures, name)} {seconds(t)} ({percent(t / whole)})" for name, t in ordered if t > _WORTH * whole]
    if parts:
        yield f"It goes to {', '.join(parts)}."
    if not figures.has_device:
        lacks = f"no kernel of the {figures.device}" if figures.device else "no accelerator"
        yield f"The trace has {lacks}; the explanation covers CPU operators."


def spent(figures: Figures, limit: str) -> str:
    """Return what a step spends on a limit."""
    return SPENT[limit] if figures.has_device else _ON_PROCESSOR.get(limit, SPENT[limit])


def _recomputation(figures: Figures) -> Iterator[str]:
    if (again := figures.phases.get("recompute", 0.0)) > _WORTH * figures.whole_s:
        share = 100 * again / figures.whole_s
        yield f"Recomputation of activations in the backward pass takes {seconds(again)} ({share:.0f} %)."


def _communication(figures: Figures) -> Iterator[str]:
    exposed, hidden = figures.communication_s, figures.overlapped_s
    if exposed + hidden > _WORTH * figures.whole_s:
        waits = any(figures.limits.get(name, 0.0) > 0 for name in ("imbalance", "bubble", "transfers"))
        without = ", without waits" if waits else ""
        yield f"{seconds(hidden)} of {seconds(exposed + hidden)} of communication{without} is overlapped."


def _slow(figures: Figures) -> Iterator[str]:
    if said := slow_one(figures):
        yield said


def slow_one(figures: Figures) -> str:
    """Return what is remarkable of a collective that is slow, and which traces would tell more; empty without one."""
    if (slow := figures.slow) is None:
        return ""
    which = f"{slow.found} {slow.kind}s take" if slow.found > 1 else f"One {slow.kind} takes"
    each = " each" if slow.found > 1 else ""
    they = "they" if slow.found > 1 else "it"
    kind = "its type and size" if slow.size >= 0 else "its type"
    sizes = "" if slow.size >= 0 else f" (no sizes are recorded, so {they} may move more bytes)"
    compared = (
        f"while the median of {kind} takes {seconds(slow.usual_ns / 1000000000.0)}{sizes}"
        if slow.usual_ns
        else f"far longer than its {slow.size:,} elements need on a 5 GB/s link"
    )
    alone = len(figures.ranks) == 1
    other = (
        f"; {they} may wait for a slower rank; explain the traces of all ranks: sightline explain rank-*.json.gz"
        if alone
        else ""
    )
    return f"{which} {seconds(slow.each_ns / 1e9)}{each}, {compared}{other}."


def _unmatched(figures: Figures) -> Iterator[str]:
    total = sum(figures.unmatched.values())
    if total > 0:
        names = sorted(figures.unmatched, key=lambda name: (-figures.unmatched[name], name))
        listed = ", ".join(f"'{name[:60]}'" for name in names[:3])
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        what = "Unknown kernels" if figures.has_device else "Unknown operators"
        yield f"{what} take {seconds(total)}: {listed}{more}."


def _uneven(figures: Figures) -> Iterator[str]:
    if figures.has_steps and figures.all_steps > 1 and figures.longest_s > _UNEVEN * figures.shortest_s:
        yield f"Step times vary from {seconds(figures.shortest_s)} to {seconds(figures.longest_s)}."
    if (long := figures.long) is not None:
        which = f"{long.steps} of {long.of} steps take" if long.steps > 1 else f"One of {long.of} steps takes"
        yield (
            f"{which} {seconds(long.long_ns / 1000000000.0)}, the others "
            f"{seconds(long.usual_ns / 1000000000.0)}, mostly due to {fills(figures)}. That adds "
            f"{seconds(long.extra_ns / 1000000000.0)} to the mean step."
        )


def fills(figures: Figures) -> str:
    """Return what fills the long steps of a trace."""
    parts = figures.long_parts
    name = max(parts, key=lambda one: parts[one])
    call = figures.long.call if figures.long is not None and name == "host" else ""
    kernels = "kernels" if figures.has_device else "operators"
    return f"{kernels if name == 'compute' else spent(figures, name)}{f', longest in {call}' if call else ''}"
