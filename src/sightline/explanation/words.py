"""An explanation in sentences, the most important first."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sightline.explanation.advice import Tried, Tries, savings
from sightline.explanation.limits import exposed_communication_s, limits_of
from sightline.prediction.changes import LIMIT_NAMES, WHOLE_NAMES, memory_needed, named, seconds
from sightline.profile import SERVING, TRAINING, Profile, overlapped_s
from sightline.profile.metrics import OPERATOR
from sightline.quantities import GIB, percent

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

NOTHING_FITS = (
    "No change that was tried makes it fit: `sightline predict` tries several at once, other frameworks and devices."
)
"""Said where nothing is advised for a plan that does not fit."""
NOTHING_HELPS = (
    "No single change of the plan, and no pair of those that were tried, saves more than the prediction may be off."
)
_STARTS = 0.1
"""Share of an operator's time that its work takes, below which what starts it takes nearly all."""
_TIGHT = 0.9
"""Share of the memory from which on what fills it is told."""
_DOMINATES = 0.5
"""Elasticity from which on a number of the hardware dominates."""
_NUMBERS = {
    "device.peak_flops": "the device's peak FLOP/s",
    "device.memory_bandwidth": "the device's memory bandwidth",
    "device.l2_bandwidth": "the device's L2 bandwidth",
    "device.l2_bytes": "the size of the device's L2 cache",
    "device.vector_flops": "the device's vector FLOP/s",
    "intra_node.bandwidth": "the bandwidth of the links in a node",
    "intra_node.latency_s": "the latency of the links in a node",
    "network.bandwidth_per_node": "the bandwidth of the network",
    "network.latency_s": "the latency of the network",
}


def said_of(own: Profile, tries: Tries, known: "Anchored | None" = None) -> list[str]:
    """Return the reading of a prediction: what binds it, what is hidden and exposed, memory, hardware, advice."""
    found = [*_limits(own), *_exposed(own), *memory_sentences(own, tries.single), *_load(own)]
    if own.fits is not False:
        found += _hardware(own, known)
    if not tries.advice and own.task is not OPERATOR:
        found.append(NOTHING_FITS if own.fits is False else NOTHING_HELPS)
    return found


def _limits(own: Profile) -> Iterator[str]:
    if not own.whole_s:
        return
    limits = limits_of(own)
    if not limits:
        return
    whole, first = float(own.whole_s), limits[0]
    known = [one for one in limits if one.alone_s is not None]
    least = max(known, key=lambda one: one.alone_s or 0.0, default=None)
    if own.task is OPERATOR and least is not None and least.alone_s and least.alone_s < _STARTS * whole:
        yield (
            f"Its work takes {seconds(least.alone_s)} of {seconds(whole)}; nearly all of the time is to start it, and "
            "latency."
        )
        return
    name = LIMIT_NAMES.get(first.limit, first.limit)
    said = f"{name[:1].upper()}{name[1:]} takes {seconds(first.time_s)} of {seconds(whole)} ({percent(first.share)})"
    others = [one for one in limits[1:3] if one.share >= 0.05]
    if others:
        said += ", then " + " and ".join(f"{LIMIT_NAMES.get(o.limit, o.limit)} {seconds(o.time_s)}" for o in others)
    yield f"{said}."
    if least is not None and least.alone_s:
        yield (
            f"If only {LIMIT_NAMES.get(least.limit, least.limit).removeprefix('exposed ')} held, "
            f"{WHOLE_NAMES.get(own.task.whole, 'it')} would take {seconds(least.alone_s)}, "
            f"{percent(least.alone_s / whole)} of that: the same work cannot take less."
        )


def _exposed(own: Profile) -> Iterator[str]:
    exposed, hidden = exposed_communication_s(own), overlapped_s(own.rows)
    if exposed > 0.005 * float(own.whole_s or 0.0):
        behind = f", {seconds(hidden)} runs behind computation" if hidden > 0.005 * float(own.whole_s) else ""
        yield f"Nothing hides {seconds(exposed)} of communication{behind}."


def memory_sentences(own: Profile, single: Sequence[Tried] = ()) -> Iterator[str]:
    """Yield what fills the fullest device, and which changes free how much, where memory is tight or not enough."""
    if not own.memory_bytes or own.task is OPERATOR:
        return
    total, usable = float(own.memory_bytes["total"]), float(own.usable_bytes)
    is_engine = own.task is not TRAINING
    if own.fits is not False and (total < _TIGHT * usable or is_engine):
        return
    parts = {name: float(size) for name, size in own.memory_bytes.items() if name != "total"}
    name = max(parts, key=parts.__getitem__)
    freed = [f"{named(one.told)} frees {size / GIB:.1f} GiB" for one, size in savings(own, single)]
    yield (
        f"The fullest device {memory_needed(own)}, of which {name.replace('_', ' ')} {parts[name] / GIB:.1f} GiB"
        f"{'; ' if freed else ''}{', '.join(freed)}."
    )


def _load(own: Profile) -> Iterator[str]:
    if own.task is SERVING and own.limited_by:
        yield f"{own.limited_by[:1].upper()}{own.limited_by[1:]}."


def _hardware(own: Profile, known: "Anchored | None") -> Iterator[str]:
    """Yield the number of the hardware that the time hangs on most, where one dominates."""
    if own.task is SERVING or own.scenario.cluster.groups:
        return
    from sightline.prediction.sensitivity import elasticities

    key: Any = own.task.whole
    found = {number: by_key[key] for number, by_key in elasticities(own.scenario, known).items() if key in by_key}
    number = max(found, key=lambda one: abs(found[one]), default=None)
    if number is not None and abs(found[number]) >= _DOMINATES:
        less = "less" if found[number] < 0 else "more"
        yield (
            f"The time hangs most on {_NUMBERS[number]}: 10 % more of it gives about {10 * abs(found[number]):.0f} % "
            f"{less} time."
        )
