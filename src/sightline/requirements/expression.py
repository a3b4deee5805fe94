"""Requirements as they are typed, ``fits``, ``mfu>=0.35``, ``ttft_p90 <= 500 ms``, and the figures they may name."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sightline import quantities
from sightline.errors import InputError, nearest, prefixed, refuse
from sightline.loading.lengths import number_or_text
from sightline.planning.plan_limits import BY_KEY, read_limit
from sightline.profile import BOUNDS, LEVELS, MEMORY_PARTS, SERVING, TASKS, Task, task_of
from sightline.profile.metrics import OPERATOR, STATISTICS
from sightline.validators import share

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
_TABLES = ("kv_tiers", "pools", "good_shares", "class_times_s")
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
    words = [Figure("fits_probability", "share"), Figure("bottleneck", "word", BOUNDS)]
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
        raise InputError(f"{quantities.show(name)} has parts; allowed: {', '.join(parts)}")
    percentile = _PERCENTILE.fullmatch(name.strip().lower())
    if percentile and (parts := [spelled for spelled in by_name if spelled.startswith(f"{short(percentile[1])}_p")]):
        raise InputError(
            f"{quantities.show(name)} is not a percentile in the results; allowed: {', '.join(parts)}; add it with "
            f"--set workload.slo.percentile={percentile[2]}"
        )
    names = [*by_name, *_OTHER_NAMES]
    raise InputError(
        f"{quantities.show(name)} is not a figure of task {task}; allowed: {_listed(by_name)}{nearest(name, names)}"
    )


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


COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
"""What an operator asks of a figure and its bound."""
DIMENSIONS: Final[Mapping[str, quantities.Dimension]] = {
    "s": quantities.SECONDS,
    "tokens/s": quantities.TOKENS_PER_SECOND,
    "requests/s": quantities.RATE,
    "tokens": quantities.TOKENS,
    "FLOP": quantities.COUNT,
    "FLOP/s": quantities.FLOPS,
    "B": quantities.BYTES,
    "B/s": quantities.BYTES_PER_SECOND,
    "J": quantities.JOULES,
    "USD": quantities.USD,
    "share": quantities.RATE,
    "count": quantities.COUNT,
}
"""By the unit of a metric; bounds of shares may be written in per cent too."""
_ALIKE = {"=>": ">=", "=<": "<=", "=": "==", "≥": ">=", "≤": "<="}
"""Operators that somebody may type instead."""
_EXACT = ("==", "!=")
_FORM = re.compile(r"\s*([^<>=!≥≤]*?)\s*(?:([<>=!≥≤]+)\s*(.*?))?\s*", re.DOTALL)
_JOINED = re.compile(r"\s+and\s+|\s*&+\s*|\s*;\s*", re.IGNORECASE)
"""What somebody may type between requirements instead of a comma."""
_QUOTED = "in quotes: the shell treats `>` and `<` as redirection"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What one figure of an answer has to be."""

    require: str
    """As it was typed."""
    name: str
    """Of the figure, as it was typed."""
    figure: Figure
    operator: str = ""
    """One of ``COMPARED``; empty for whether it fits."""
    bound: float | str | None = None
    """In the base unit of the figure."""
    written: str = ""
    """The bound as it was typed."""

    @property
    def dimension(self) -> quantities.Dimension | None:
        """The kind of quantity that the figure is; None for words."""
        return DIMENSIONS.get(self.figure.unit)


def split(require: str | Iterable[str]) -> list[str]:
    """Return the requirements of one or several lists that are separated by commas, each once."""
    lists = [require] if isinstance(require, str) else list(require)
    found = [one.strip() for several in lists for one in several.split(",")]
    if not found or not all(found):
        raise InputError("--require has an empty requirement; write it as 'fits,mfu>=0.35'")
    return list(dict.fromkeys(found))


def read(texts: Iterable[str], scenario: Any) -> list[Requirement]:
    """Return what is required of the answer to a scenario.

    Raises:
        InputError: Some name no figure of its task, or have a bound that none is.
    """
    task, figures = scenario.workload.task, figures_of_scenario(scenario)
    found, problems = [], []
    for text in texts:
        try:
            found.append(_read(text, figures, task))
        except InputError as error:
            parts = [part.strip() for part in _JOINED.split(text)]
            said = [f"separate requirements with commas, such as '{','.join(parts)}'"]
            problems += [
                f"--require {quantities.show(text)}: {one}" for one in (said if len(parts) > 1 else error.problems)
            ]
    refuse(problems)
    return found


def _read(text: str, figures: Mapping[str, Figure], task: str) -> Requirement:
    matched = _FORM.fullmatch(text)
    name, sign, written = matched.groups(default="") if matched else (text, "", "")
    figure = named(name, figures, task)
    if figure.key == FITS:
        if sign:
            raise InputError(f"{FITS} takes no bound; write {FITS}")
        return Requirement(require=text, name=name, figure=figure)
    if not sign:
        raise InputError(f"{name} has no bound; write '{name}{_example(figure)}', {_QUOTED}")
    bound = _bound(name, _operator(name, sign, figure), written, figure)
    return Requirement(require=text, name=name, figure=figure, operator=sign, bound=bound, written=written)


def _operator(name: str, sign: str, figure: Figure) -> str:
    """Check an operator: sizes are bounded, words and counts may also be equal."""
    allowed = _EXACT if figure.words else tuple(COMPARED) if figure.unit == "count" else tuple(COMPARED)[:4]
    if sign in allowed:
        return sign
    if sign in _EXACT:
        raise InputError(f"{name} is not a count; allowed: {', '.join(allowed)}")
    near = _ALIKE.get(sign) or nearest(sign, allowed)
    hint = f" - did you mean '{near}'?" if near in allowed else ""
    raise InputError(f"the operator of {name} is {quantities.show(sign)}; allowed: {', '.join(allowed)}{hint}")


def _bound(name: str, sign: str, written: str, figure: Figure) -> float | str:
    if not written:
        raise InputError(f"{name} has no bound after {sign}; write '{name}{_example(figure)}', {_QUOTED}")
    if figure.words:
        if written not in figure.words:
            near = nearest(written, figure.words)
            raise InputError(
                f"the bound of {name} is {quantities.show(written)}; allowed: {', '.join(figure.words)}{near}"
            )
        return written
    limit = BY_KEY.get(figure.key) or BY_KEY.get(figure.key.partition(".")[0])
    if limit is not None:
        return read_limit(f"the bound of {name}", written, limit[1])
    with prefixed(f"the bound of {name} "):
        if figure.unit == "share":
            return share(number_or_text(written))
        return quantities.parse_quantity(written, DIMENSIONS[figure.unit], zero=True)


def _example(figure: Figure) -> str:
    """How a figure is bounded."""
    if figure.words:
        return f"=={figure.words[0]}"
    if figure.unit == "share":
        return ">=0.35"
    dimension = DIMENSIONS[figure.unit]
    return f"{'>=' if figure.unit.endswith('/s') else '<='}{dimension.example}"
