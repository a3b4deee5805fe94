"""What may be required of an answer: the figures under its result keys, and the short names that they go by."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.errors import InputError, nearest
from sightline.profile import BOUNDS, LEVELS, MEMORY_PARTS, SERVING, TASKS, Task, task_of
from sightline.profile.metric import STATISTICS
from sightline.profile.metrics import OPERATOR
from sightline.quantities import show

FITS = "fits"
"""The result key of whether a plan fits in memory, which takes no bound."""
_OTHER_NAMES = {
    "memory": "memory_bytes.total",
    "capacity": "capacity_requests_per_s",
    "goodput": "goodput_requests_per_s",
    "tokens_per_s": "output_tokens_per_s",
    "tokens_per_s_per_device": "output_tokens_per_s_per_device",
}
"""Names that do not follow from the keys; a task's own key of that name goes first."""
_UNITS = frozenset(("s", "j", "usd", "bytes"))
"""Parts of a key that say its unit, and are left out of its short name."""
_MANY = ("memory_bytes.", "phases.")
"""What keys of parts of the memory and of the time begin with."""
_PERCENTILE = re.compile(r"(.+)[._]p(\d{1,2}(?:\.\d+)?)")
"""The name of a percentile of a time: the time, and the number."""
_TABLES = ("kv_tiers", "pools")
"""Metrics that are tables by name, no figures."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Something of an answer that may be required."""

    key: str
    """Its result key."""
    unit: str
    """A unit of metrics; word for one of ``words``, and for whether it fits."""
    words: Sequence[str] = ()


def figures_of(task: Task, percentile: float | None = None) -> dict[str, Figure]:
    """Return what may be required of the answers of a task by key.

    Args:
        task: Of the scenario.
        percentile: Of the objective of a load, which its times have too.
    """
    units: dict[str, Any] = {key: one.unit for key, one in task.figures.items() if key not in _TABLES}
    if percentile is not None:
        times = [key for key, one in task.metrics.items() if one.parts == STATISTICS]
        units |= {f"{key}.p{percentile:g}": task.metrics[key].unit for key in times}
    found = {key: Figure(key, unit) for key, unit in units.items() if unit != "word"}
    if task is OPERATOR:
        return found | {"bound": Figure("bound", "word", BOUNDS)}
    memory = (Figure(f"memory_bytes.{part}", "B") for part in (*MEMORY_PARTS, "total"))
    phases = (Figure(f"phases.{phase}", "s") for phase in task.phases)
    words = [Figure("bottleneck", "word", BOUNDS)]
    words += [] if task is SERVING else [Figure("bound_level", "word", LEVELS)]
    return {FITS: Figure(FITS, "word"), **found, **{one.key: one for one in (*memory, *phases, *words)}}


def figures_of_scenario(scenario: Any) -> dict[str, Figure]:
    """Return what may be required of the answer to a scenario by key."""
    slo = getattr(scenario.workload, "slo", None)
    task = task_of(scenario.workload.task)
    return {} if task is None else figures_of(task, None if slo is None else float(slo.percentile))


def named(name: str, figures: Mapping[str, Figure], task: str) -> Figure:
    """Return the figure of a name: a result key such as ``ttft_s.p90``, or a short name such as ``ttft_p90``.

    Raises:
        InputError: ``task`` has none of that name, in half a sentence.
    """
    by_name = {short(key): figure for key, figure in figures.items()}
    asked = short(name)
    if found := by_name.get(asked) or by_name.get(short(_OTHER_NAMES.get(asked, ""))):
        return found
    if asked and (parts := [spelled for spelled in by_name if spelled.startswith(f"{asked}_")]):
        raise InputError(f"{show(name)} has parts; allowed: {', '.join(parts)}")
    percentile = _PERCENTILE.fullmatch(name.strip().lower())
    if percentile and (parts := [spelled for spelled in by_name if spelled.startswith(f"{short(percentile[1])}_p")]):
        raise InputError(
            f"{show(name)} is no percentile of the results; allowed: {', '.join(parts)}; "
            f"--set workload.slo.percentile={percentile[2]} adds that one"
        )
    names = [*by_name, *_OTHER_NAMES]
    raise InputError(f"{show(name)} is no figure of task {task}; allowed: {_listed(by_name)}{nearest(name, names)}")


def short(key: str) -> str:
    """Return the short name of a result key: ``ttft_s.p90`` is ttft_p90, ``cost_usd`` is cost."""
    words = [word for word in re.split(r"[._\s-]+", key.strip().lower()) if word]
    kept = [word for place, word in enumerate(words) if not place or word not in _UNITS or words[place - 1] == "per"]
    return "_".join(kept)


def names() -> list[str]:
    """Return the short names of what may be required of any task."""
    keys = (key for task in TASKS for key in figures_of(task))
    return list(dict.fromkeys((*map(short, keys), *_OTHER_NAMES)))


def _listed(by_name: Mapping[str, Figure]) -> str:
    """The names of a task, parts of a figure in one word, without those of phases and parts of memory, which are many.

    ``ttft_mean/p50/p90/p99`` stands for four.
    """
    parts: dict[str, list[str]] = {}
    for name, one in by_name.items():
        if one.key.startswith(_MANY):
            continue
        whole, _, part = one.key.partition(".")
        parts.setdefault(short(whole) if part else name, []).append(short(part))
    listed = [f"{whole}_{'/'.join(found)}" if found != [""] else whole for whole, found in parts.items()]
    return ", ".join(
        (*listed, *(["memory"] if _OTHER_NAMES["memory"] in {one.key for one in by_name.values()} else []))
    )
