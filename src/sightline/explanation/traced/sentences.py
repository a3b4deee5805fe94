"""What a traced step's figures say, in plain sentences."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sightline.explanation.traced.figures import Figures
from sightline.prediction.changes import seconds
from sightline.quantities import percent

if TYPE_CHECKING:
    from sightline.explanation.traced.model import Predicted

SPENT = {
    "compute": "kernels bound by compute",
    "memory": "kernels bound by memory",
    "network": "exposed communication",
    "imbalance": "waits for slower ranks",
    "bubble": "waits for other pipeline stages",
    "transfers": "sends and receives that take longer than the fastest of their kind",
    "input": "waits for input",
    "offload": "copies from the host's memory",
    "launches": "waits for the host to launch kernels",
    "host": "waits for the host",
    "unmatched": "kernels that match no known operator",
    "idle": "gaps that nothing in the trace explains",
}
_ON_PROCESSOR = {
    "compute": "operators bound by compute",
    "memory": "operators bound by memory",
    "launches": "calls of small operators",
    "host": "time in which no operator runs",
    "unmatched": "operators of unknown kinds",
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
        yield f"The trace has {lacks}: what is explained are the operators that the processor (CPU) runs."


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
        without = ", waits in it left out" if waits else ""
        yield f"Of {seconds(exposed + hidden)} of communication{without}, computation hides {seconds(hidden)}."


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
    kind = "its kind and size" if slow.size >= 0 else "its kind"
    sizes = "" if slow.size >= 0 else f" (no sizes are recorded, so {they} may move more bytes)"
    compared = (
        f"where the median of {kind} takes {seconds(slow.usual_ns / 1e9)}{sizes}"
        if slow.usual_ns
        else f"which is far longer than its {slow.size:,} elements need on a link of 5 GB/s"
    )
    alone = len(figures.ranks) == 1
    other = (
        f"; {they} may wait for a slower rank, which the traces of the other ranks would show: sightline explain "
        "rank-*.json.gz"
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
        what = "Kernels that match no known operator" if figures.has_device else "Operators of unknown kinds"
        yield f"{what} take {seconds(total)}: {listed}{more}."


def _uneven(figures: Figures) -> Iterator[str]:
    if figures.has_steps and figures.all_steps > 1 and figures.longest_s > _UNEVEN * figures.shortest_s:
        yield f"Steps are uneven: from {seconds(figures.shortest_s)} to {seconds(figures.longest_s)}."
    if (long := figures.long) is not None:
        which = f"{long.steps} of {long.of} steps take" if long.steps > 1 else f"One of {long.of} steps takes"
        yield (
            f"{which} {seconds(long.long_ns / 1e9)} where the others take {seconds(long.usual_ns / 1e9)}: the rest is "
            f"mostly {fills(figures)}. That adds {seconds(long.extra_ns / 1e9)} to the mean step."
        )


def fills(figures: Figures) -> str:
    """Return what fills the long steps of a trace."""
    parts = figures.long_parts
    name = max(parts, key=lambda one: parts[one])
    call = figures.long.call if figures.long is not None and name == "host" else ""
    kernels = "kernels" if figures.has_device else "operators"
    return f"{kernels if name == 'compute' else spent(figures, name)}{f', longest in {call}' if call else ''}"
