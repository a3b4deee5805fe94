"""The order in which several answers are shown: what fits first, then the fastest, or by a key."""

from collections.abc import Mapping, Sequence
from typing import Any

from sightline.errors import InputError, nearest
from sightline.profile import TASKS, Profile
from sightline.profile.results import flatten

AS_ASKED = "asked"
"""The key that keeps the order of the question."""
_FASTEST = {"training": "tokens_per_s", "generation": "output_tokens_per_s", "serving": "goodput_requests_per_s"}
"""By task; operators, which do different things, stay in the order of the question."""
_MORE_IS_BETTER = ("tokens/s", "requests/s", "FLOP/s", "B/s", "share")
_PARTS = ("memory_bytes", "phases")


def ranked(profiles: Sequence[Profile], cells: Sequence[Mapping[str, Any]] = (), key: str = "") -> list[int]:
    """Return the positions of profiles in the order in which they are shown, task by task.

    Without a ``key``, those that fit come first and then the fastest. A ``key`` is one of the results, of which the
    better comes first among what fits, one that was swept (``cells``), or ``asked``.

    Raises:
        InputError: The key is none of them.
    """
    if key == AS_ASKED:
        return list(range(len(profiles)))
    found: list[int] = []
    swept = _swept(key, cells) if key else ""
    if key and not swept and not any(_has(profile, key) for profile in profiles):
        known = [*_keys(profiles), *dict.fromkeys(k for cell in cells for k in cell)]
        raise InputError(f"--sort is '{key}'; allowed: {', '.join((AS_ASKED, *known))}{nearest(key, known)}")
    for task in TASKS:
        own = [i for i, profile in enumerate(profiles) if profile.task is task]
        if swept:
            found += _in_order(own, [cells[i].get(swept) for i in own])
        elif by := key or _FASTEST.get(task.name, ""):
            found += sorted(own, key=lambda i: (profiles[i].fits is False, *_merit(profiles[i], by)))
        else:
            found += own
    return found


def _swept(key: str, cells: Sequence[Mapping[str, Any]]) -> str:
    """The swept key that is meant: as it stands, or by its last part."""
    keys = list(dict.fromkeys(k for cell in cells for k in cell))
    return key if key in keys else next((k for k in keys if k.rpartition(".")[2] == key), "")


def _keys(profiles: Sequence[Profile]) -> list[str]:
    """The results that profiles may be ordered by."""
    metrics = (key for p in profiles for key, metric in p.task.figures.items() if metric.unit != "word")
    parts = (f"{part}.{name}" for p in profiles for part in _PARTS for name in getattr(p, part))
    return list(dict.fromkeys((*metrics, *parts)))


def _has(profile: Profile, key: str) -> bool:
    part, _, name = key.partition(".")
    return key in profile.task.figures or (part in _PARTS and name in getattr(profile, part))


def _merit(profile: Profile, key: str) -> tuple[bool, float]:
    """What is smaller the better a profile is; unknown figures come last."""
    if not _has(profile, key):
        return True, 0.0
    metric = profile.task.figures.get(key)
    value = profile.figure(key) if metric else flatten({p: getattr(profile, p) for p in _PARTS})[key]
    if not isinstance(value, int | float):
        return True, 0.0
    return False, -float(value) if metric and metric.unit in _MORE_IS_BETTER else float(value)


def _in_order(positions: Sequence[int], values: Sequence[Any]) -> list[int]:
    """Positions by their values: numbers by size, anything else in the order in which it was typed."""
    first = {repr(value): position for position, value in reversed(list(zip(positions, values, strict=True)))}
    is_number = all(isinstance(value, int | float) for value in values)
    merits = [float(value) if is_number else first[repr(value)] for value in values]
    return [position for _, position in sorted(zip(merits, positions, strict=True))]
