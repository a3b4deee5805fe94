"""What sets the prediction of one plan apart from another's, as sentences."""

from collections.abc import Mapping

from sightline.profile import Profile
from sightline.quantities import GIB, SECONDS, format_quantity, significant

WORDS: Mapping[str, str] = {
    "communication_exposed": "exposed communication",
    "pipeline_bubble": "pipeline bubble",
    "forward": "time in forward passes",
    "backward": "time in backward passes",
    "recompute": "recomputation",
    "optimizer": "time in the optimizer",
    "host": "waiting for the host",
    "prefill": "prefill",
    "decode": "decoding",
    "communication": "communication",
    "transfer": "transfer of the cache",
    "queue": "waiting in the queue",
    "decode_queue": "waiting to decode",
}
"""Phases as a sentence names an amount of them."""
TELLING = 0.25
"""Share of the whole difference from which on a phase is named."""


def slower_because(best: Profile, other: Profile) -> str:
    """Return which phases the other's time is longer or shorter by: "0.31 s more exposed communication".

    The largest phases that make up the difference, and what is gained elsewhere against it.
    """
    keys = dict.fromkeys((*best.phases, *other.phases))
    changes = {key: float(other.phases.get(key, 0.0)) - float(best.phases.get(key, 0.0)) for key in keys}
    whole = sum(changes.values())
    against = {key: change for key, change in changes.items() if change * whole > 0}
    unmet = sorted(against, key=lambda key: -abs(against[key]))[:2]
    named = [key for key in unmet if abs(against[key]) >= TELLING * abs(whole)] or unmet[:1]
    if not named:
        return "takes as long"
    said = " and ".join(_amount(key, against[key]) for key in named)
    gained = max((key for key in changes if key not in against), key=lambda key: abs(changes[key]), default=None)
    if gained is not None and abs(changes[gained]) >= TELLING * abs(whole):
        said += f", for {_amount(gained, changes[gained])}"
    return said


def _amount(phase: str, seconds: float) -> str:
    amount = format_quantity(significant(abs(seconds), 2), SECONDS, digits=2)
    return f"{amount} {'more' if seconds > 0 else 'less'} {WORDS.get(phase, phase.replace('_', ' '))}"


def more_memory_because(best: Profile, other: Profile) -> str:
    """Return the part of memory by which the other plan needs more or less: "12.3 GiB more activations"."""
    sizes = {name: size for name, size in best.memory_bytes.items() if name != "total"}
    parts = {name: float(other.memory_bytes[name] - size) for name, size in sizes.items()}
    largest = max(parts, key=lambda name: abs(parts[name]))
    return f"{abs(parts[largest]) / GIB:.1f} GiB {'more' if parts[largest] > 0 else 'less'} {largest}"


def memory_needed(profile: Profile) -> str:
    """Return what a plan needs of a device's memory."""
    return f"needs {profile.memory_bytes['total'] / GIB:.1f} GiB of {profile.usable_bytes / GIB:.1f} GiB"


def needs_and_step(profile: Profile) -> str:
    """Return what a training plan needs of a device's memory, and how long a step takes."""
    return f"{memory_needed(profile)} and {format_quantity(float(profile.step_time_s), SECONDS)} a step"
