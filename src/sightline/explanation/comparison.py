"""Two profiles compared, predicted and measured or any two of one kind, figure by figure and request by request."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import log, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sightline.anchors.corrected import anchored
from sightline.errors import InputError, nearest
from sightline.explanation.compared import (
    ANOTHER_RUN,
    CERTAINTY,
    EXACT,
    INTERVAL,
    LEVELS,
    UNKNOWN,
    Address,
    Cell,
    Faster,
    Figure,
    Side,
    Spread,
    difference,
    faster,
    interval_of,
    ratio_spread,
    shared_error,
    to_dict,
)
from sightline.explanation.reading import Asked, sides_of
from sightline.profile import GENERATION, SERVING, TRAINING, Task
from sightline.profile.results import stamped
from sightline.quantities import counted, relative_span
from sightline.runs import open_store
from sightline.simulation.load import Floats
from sightline.simulation.outcome import Outcome
from sightline.simulation.replay import STATISTICS
from sightline.simulation.results.times import student, times_of

if TYPE_CHECKING:
    import polars

    from sightline.anchors.sources import Given
    from sightline.prediction.anchoring import Anchored

PARTS = 20
"""Consecutive parts of the load that are left out one by one."""
FEWEST = 2 * PARTS
"""Requests from which on that says something; of fewer a ratio may be off by a factor of two."""
EIGHT_IN_TEN = (0.1, 0.9)


class Pair(NamedTuple):
    """A statistic of the same requests at both servers."""

    quantity: str
    a: Figure
    b: Figure
    spread: Spread
    """Of b / a: what the length of the load leaves open."""


def is_same_load(a: Outcome | None, b: Outcome | None) -> bool:
    """Return whether both served requests of the same lengths in the same order."""
    if a is None or b is None or len(a.requests) != len(b.requests) or not len(a.requests):
        return False
    return all(
        bool((getattr(a.requests, name) == getattr(b.requests, name)).all())
        for name in ("prompt_tokens", "output_tokens")
    )


def pairs(a: Outcome, b: Outcome) -> Iterator[Pair]:
    """Yield mean and percentiles of every time over the requests that both completed."""
    for key, (first, second) in _both(a, b).items():
        for name, statistic in STATISTICS.items():
            one, other = statistic(first), statistic(second)
            if one > 0 and other > 0:
                spread = _spread(first, second, statistic)
                yield Pair(f"{key}.{name}", Figure(one, EXACT), Figure(other, EXACT), spread)


def in_words(a: Outcome, b: Outcome) -> str:
    """Return how the times of single requests differ, as a sentence; empty where no request was completed by both."""
    ratios = {key: second / np.maximum(first, np.finfo(float).tiny) for key, (first, second) in _both(a, b).items()}
    ends = {key: np.quantile(ratio, EIGHT_IN_TEN) for key, ratio in ratios.items()}
    said = [f"{SERVING.metrics[key].label} {relative_span(low, high)}" for key, (low, high) in ends.items()]
    count = max((ratio.size for ratio in ratios.values()), default=0)
    return f"in B, 80 % of {count:,} matched requests have {', '.join(said)}" if said else ""


def _both(a: Outcome, b: Outcome) -> Mapping[str, tuple[Floats, Floats]]:
    """By time: seconds of each request that both completed."""
    found = {}
    first, second = times_of(a), times_of(b)
    for key, seconds in first.items():
        both = ~np.isnan(seconds) & ~np.isnan(second[key])
        if both.any():
            found[key] = seconds[both], second[key][both]
    return found


def _spread(a: Floats, b: Floats, statistic: Callable[[Floats], float]) -> Spread:
    """The spread of the ratio of a statistic, by leaving out one part of the load after the other (the jackknife).

    Requests wait in one queue, so that neighbours resemble each other; parts hardly do (Miller, Biometrika 1974, 61:1).
    """
    if a.size < FEWEST:
        return Spread(log(2.0), log(2.0))
    part = np.arange(a.size) * PARTS // a.size
    left = [(statistic(a[part != one]), statistic(b[part != one])) for one in range(PARTS)]
    ratios = np.array([log(other / one) for one, other in left if one > 0 and other > 0])
    half = student(PARTS - 1) * sqrt((PARTS - 1) / PARTS * float(np.square(ratios - ratios.mean()).sum()))
    return Spread(half, half)


_PHASES = tuple(dict.fromkeys((*SERVING.phases, *GENERATION.phases[:-1], *TRAINING.phases)))
FASTER, SLOWER, MORE, LESS = "faster", "slower", "more", "less"
NO_DIFFERENCE = "no difference found"
ONLY_A, ONLY_B = "only in a", "only in b"
HOST = "host"
"""A measured module's time outside of its kernels."""
_LEFT_OUT = {"plan": ("data_parallel", "replicas")}
"""Degrees that follow from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One row: b relative to a."""

    level: str
    """One of ``LEVELS``."""
    quantity: str
    """The result key that is compared; ``time_s`` of a phase, module or operator."""
    phase: str | None
    module: str | None
    operator: str | None
    a: float | None
    """SI; None where that side does not have it."""
    b: float | None
    ratio: float | None = None
    """b / a."""
    interval: tuple[float, float] | None = None
    """Of the ratio; the verdict is no difference found where it holds 1. None where both figures are exact, as bytes
    and phases of two predictions are: these differ by more than one part in a thousand."""
    probability: float | None = None
    """With which the interval holds the ratio: 0.99 where a side is measured or both served the same requests, 0.8
    between the key figures of two predictions."""
    verdict: str
    """What b is: faster, slower (of bytes and utilization: more, less), no difference found, not comparable, only
    in a, only in b."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two profiles side by side."""

    a: Side
    b: Side
    rows: Sequence[Difference]
    about: str = ""
    """How the plans differ; empty where they do not."""
    warnings: Sequence[str] = ()
    requests: str = ""
    """How the times of single requests differ, where both served the same ones."""
    faster: Faster | None = None
    """Which of two predictions is the faster, and how likely that is."""

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as mappings; the interval is the columns low, high and probability."""
        rows = [asdict(row) for row in self.rows]
        ends = [(*(row.pop("interval") or (None, None)), row.pop("probability")) for row in rows]
        return [
            {**row, **dict(zip(("low", "high", "probability"), of, strict=True))}
            for row, of in zip(rows, ends, strict=True)
        ]

    @property
    def table(self) -> "polars.DataFrame":
        """The rows as a data frame."""
        import polars

        return polars.DataFrame(self.records(), infer_schema_length=None)


def check_levels(levels: Iterable[str]) -> tuple[str, ...]:
    """Return the levels, coarse ones first; raise `InputError` for a word that is none."""
    asked = list(levels)
    wrong = [level for level in asked if level not in LEVELS]
    if wrong or not asked:
        listed = ", ".join(LEVELS)
        said = [f"level is '{word}'; allowed: {listed}{nearest(word, LEVELS)}" for word in wrong]
        raise InputError(said or f"level is empty; allowed: {listed}")
    return tuple(level for level in LEVELS if level in asked)


def compare_sides(a: Side, b: Side, levels: Sequence[str] = LEVELS, known: "Anchored | None" = None) -> Comparison:
    """Compare two sides at these levels; ``known`` is what anchors taught that they were predicted with.

    Raises:
        InputError: They answer different tasks.
    """
    if a.kind is not b.kind:
        raise InputError(
            f"{a.name} is a {a.kind.name} result and {b.name} a {b.kind.name} result; compare needs two results "
            "of the same task"
        )
    shared = shared_error(a, b, known)
    paired = is_same_load(a.outcome, b.outcome)
    rows = [row for level in levels for row in _rows(a, b, level, shared)]
    warnings = [*a.warnings, *b.warnings, *unfair(a, b), *_unanswered(a, b)]
    warnings += [*_without_table(a, b, levels), *_without_interval(a, b)]
    # Servers that keep up answer as many tokens as arrive, whichever is the faster.
    found = None if paired else faster(a, b, shared)
    said = in_words(a.outcome, b.outcome) if a.outcome and b.outcome and paired else ""
    if found is not None and found.verdict == UNKNOWN:
        rows = [replace(row, verdict=UNKNOWN) if _is_unknown(row) else row for row in rows]
    told = list(dict.fromkeys(warnings))
    return Comparison(a=a, b=b, rows=rows, about=about(a, b), warnings=told, requests=said, faster=found)


def _is_unknown(row: Difference) -> bool:
    """Whether a row finds that key figures differ of which one is a bound."""
    return row.level == "step" and row.ratio is not None and row.interval is None and row.verdict != NO_DIFFERENCE


def _of_requests(a: Side, b: Side) -> Iterator[Difference]:
    """Rows of the requests that both served, where the load is the same."""
    if a.outcome is None or b.outcome is None or not is_same_load(a.outcome, b.outcome):
        return
    measured = a.is_measured or b.is_measured
    for pair in pairs(a.outcome, b.outcome):
        spread = pair.spread.joined(ANOTHER_RUN) if measured else pair.spread
        yield _row("request", Address(pair.quantity), pair.a, pair.b, a.kind, spread, CERTAINTY)


def _rows(a: Side, b: Side, level: str, shared: float) -> Iterator[Difference]:
    if level == "request":
        yield from _of_requests(a, b)
    if level == "operator":
        a, b = under_common_names(a, b)
    first, second = a.at(level), b.at(level)
    if level in ("module", "operator") and not (first and second):
        return
    exact = not (a.is_measured or b.is_measured)
    whole = a.whole_modules | b.whole_modules if level == "operator" else ()
    for address in sorted(dict.fromkeys([*first, *second]), key=_place):
        if address.module in whole:
            continue
        one, other = first.get(address), second.get(address)
        spread, probability = None, CERTAINTY
        if one and other and not exact:
            spread = ratio_spread(one.spread, other.spread)
        elif one and other and level == "step" and {address.quantity} <= a.intervals.keys() & b.intervals:
            spread, probability = ratio_spread(one.spread, other.spread, shared), INTERVAL
        yield _row(level, address, one, other, a.kind, spread, probability)


def _place(at: Address) -> int:
    """Where a phase stands in a step or batch; within one the order stays as it is."""
    return _PHASES.index(at.phase) if at.phase in _PHASES else len(_PHASES)


def _row(
    level: str, at: Address, a: Figure | None, b: Figure | None, kind: Task, spread: Spread | None, probability: float
) -> Difference:
    """One row; ``spread`` is that of the ratio, None where both figures are exact."""
    there = {"level": level, **at._asdict(), "a": a and a.value, "b": b and b.value}
    if a is None or b is None:
        return Difference(**there, verdict=ONLY_B if a is None else ONLY_A)
    ratio = b.value / a.value
    if spread is None or spread.is_exact:
        return Difference(**there, ratio=ratio, verdict=_verdict(at, difference(ratio, None), kind))
    interval = interval_of(ratio, spread, probability)
    verdict = _verdict(at, difference(ratio, interval), kind)
    return Difference(**there, ratio=ratio, interval=interval, probability=probability, verdict=verdict)


def _verdict(at: Address, found: int, kind: Task) -> str:
    """The word for b being larger (1), smaller (-1) or neither."""
    if found == 0:
        return NO_DIFFERENCE
    if at.quantity.startswith("memory_bytes") or at.quantity in kind.shares:
        return MORE if found > 0 else LESS
    return FASTER if (found > 0) == (at.quantity in kind.rates) else SLOWER


def _without_table(a: Side, b: Side, levels: Sequence[str]) -> Iterator[str]:
    if a.kind.name in ("operator", "serving") or not {"module", "operator"} & set(levels):
        return
    for side in (a, b):
        if not side.cells:
            yield f"{side.name} has no table, so modules and operators are not compared"
        elif side.whole_modules and "operator" in levels:
            yield (
                f"{side.name} does not split every module by operator; the operators of {_few(side)} are not compared"
            )


def _few(side: Side) -> str:
    names = sorted(side.whole_modules)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _without_interval(a: Side, b: Side) -> Iterator[str]:
    """Two predictions do not need it."""
    if not (a.is_measured or b.is_measured):
        return
    for side in (a, b):
        if side.is_bare:
            yield f"the uncertainty of {side.name} is unknown and not part of the intervals"


def under_common_names(a: Side, b: Side) -> tuple[Side, Side]:
    """Return both sides; where one is predicted and one measured, the measured one's kernels are named as predicted."""
    if a.is_measured == b.is_measured:
        return a, b
    if a.is_measured:
        return replace(a, cells=named_as(a.cells, b.cells)), b
    return a, replace(b, cells=named_as(b.cells, a.cells))


def named_as(measured: Sequence[Cell], predicted: Sequence[Cell]) -> list[Cell]:
    """Return ``measured`` with each module's kernels that the prediction does not name as what alone they can be.

    That is the one operator of the module that was predicted and that no measured row is called. Where it is the
    module's only one, what the host does around its kernels is part of it, as in its prediction.
    """
    known, called = _names(predicted), _names(measured)

    def renamed(cell: Cell) -> Cell:
        where = (cell.phase, cell.module)
        theirs = known.get(where, frozenset())
        missing = theirs - called[where]
        if cell.operator in theirs or len(missing) != 1 or (cell.operator == HOST and len(theirs) > 1):
            return cell
        return cell._replace(operator=next(iter(missing)))

    return [renamed(cell) for cell in measured]


def _names(cells: Sequence[Cell]) -> dict[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], frozenset[str]] = {}
    for cell in cells:
        where = (cell.phase, cell.module)
        found[where] = found.get(where, frozenset()) | {cell.operator}
    return found


def unfair(a: Side, b: Side) -> Iterator[str]:
    """Yield a sentence for models, workloads or clusters that differ, and what is not known of a side."""
    for key in ("model", "cluster"):
        first, second = a.scenario.get(key), b.scenario.get(key)
        if first and second and _name(first) != _name(second):
            yield f"{key}s differ: {_name(first)} and {_name(second)}"
        elif key == "model" and (found := differing(a.scenario, b.scenario, key)):
            yield f"models differ: {_listed(found)}"
    if found := differing(a.scenario, b.scenario, "workload"):
        yield f"workloads differ: {_listed(found)}"


def _unanswered(a: Side, b: Side) -> Iterator[str]:
    """Yield that requests are missing in the times and rates of a side, where the other has more or fewer of them."""
    if a.unanswered == b.unanswered:
        return
    for side in (a, b):
        missing = sum(side.unanswered.values())
        if missing and side.answered is not None:
            why = ", ".join(f"{count:,} {reason}" for reason, count in side.unanswered.items())
            yield (
                f"{side.name} lacks {missing:,} of {counted(side.answered + missing, 'request')} ({why}); times "
                "and rates cover the others"
            )


def about(a: Side, b: Side) -> str:
    """Return how the plans differ; empty where they do not."""
    found = differing(a.scenario, b.scenario, "plan")
    return f"plans differ: {_listed(found)}" if found else ""


def differing(a: Mapping[str, Any], b: Mapping[str, Any], part: str) -> dict[str, tuple[Any, Any]]:
    """Return the keys of a part of two scenarios that say different things; one that is left out says none."""
    first, second = a.get(part), b.get(part)
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return {}
    pairs = dict(_pairs(first, second))
    return {key: (x, y) for key, (x, y) in pairs.items() if x != y and key not in _LEFT_OUT.get(part, ())}


def _pairs(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Both sides' values by key; of a key under which both have a mapping those of its keys."""
    for key in dict.fromkeys([*first, *second]):
        x, y = first.get(key, "none"), second.get(key, "none")
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            yield from ((f"{key}.{inner}", pair) for inner, pair in _pairs(x, y))
        else:
            yield key, (x, y)


def _name(part: object) -> str:
    return str(part.get("name", "unnamed")) if isinstance(part, Mapping) else str(part)


def _listed(found: Mapping[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{key} {_word(first)} and {_word(second)}" for key, (first, second) in found.items())


def _word(value: object) -> str:
    """A value in words; of a mapping its kind or first value, with the others behind it."""
    if isinstance(value, Mapping):
        name, *others = (f"{_word(said)}" if key == "kind" else f"{key} {_word(said)}" for key, said in value.items())
        return f"{name} ({', '.join(others)})" if others else name
    return " + ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def compare(
    a: Asked,
    b: Asked,
    *,
    levels: Iterable[str] = LEVELS,
    store: str | None = None,
    anchor: "Anchored | Iterable[Given] | Given" = (),
) -> Comparison:
    """Compare two profiles figure by figure: b relative to a, with the interval of each ratio.

    Each side is a profile, a run or how its id begins, a file (results as ``--json`` or ``--csv`` writes them; a
    scenario, which is predicted), or ``"predicted"``: the prediction of the other side's scenario.

    Args:
        a: The side that ratios are relative to.
        b: The other one.
        levels: Which of step, request, phase, memory, module, operator.
        store: Where runs are looked for; default: ``SIGHTLINE_RUNS``.
        anchor: Runs of one's own cluster that correct what is predicted here, as in `predict`.

    Raises:
        InputError: A side cannot be found or is no result, they answer different tasks, or an anchor teaches nothing.
    """
    asked = check_levels(levels)
    known = anchored(anchor, store) if anchor else None
    first, second = sides_of(a, b, open_store(store), known)
    found = compare_sides(first, second, asked, known)
    return replace(found, warnings=[*found.warnings, *_unanchored(first, second)]) if known else found


def _unanchored(a: Side, b: Side) -> Iterator[str]:
    for side in (a, b):
        if not side.is_measured and not side.is_anchored:
            yield f"{side.name} is a stored prediction, which --anchor cannot correct; give its scenario"


def comparison_to_dict(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison under its result keys, in SI units and plain Python numbers."""
    sides = {
        letter: {"name": side.name, "title": side.title, "source": side.source}
        for letter, side in (("a", comparison.a), ("b", comparison.b))
    }
    rows = [asdict(row) for row in comparison.rows]
    ranked = {} if comparison.faster is None else {"faster": to_dict(comparison.faster)}
    said = {"plans": comparison.about, "requests": comparison.requests, "warnings": list(comparison.warnings)}
    return stamped({**sides, **ranked, "rows": rows, **said})
