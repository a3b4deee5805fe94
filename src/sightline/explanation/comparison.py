"""Two profiles compared, predicted and measured or any two of one kind, figure by figure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from sightline.errors import InputError, nearest
from sightline.explanation.differences import about, under_common_names, unfair
from sightline.explanation.ratios import EXACT, difference, interval_of, ratio_spread
from sightline.explanation.side import LEVELS, Address, Figure, Side
from sightline.explanation.sides import Asked, sides_of
from sightline.profile import GENERATION, TRAINING, Task
from sightline.runs import open_store

if TYPE_CHECKING:
    import polars

_PHASES = tuple(dict.fromkeys((*GENERATION.phases[:-1], *TRAINING.phases)))
FASTER, SLOWER, MORE, LESS = "faster", "slower", "more", "less"
NO_DIFFERENCE = "no difference found"
ONLY_A, ONLY_B = "only in a", "only in b"


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
    """Of the ratio, 80 %; None between two predictions, which have no noise."""
    verdict: str
    """What b is: faster, slower (of bytes and utilization: more, less), no difference found, only in a, only in b."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two profiles side by side."""

    a: Side
    b: Side
    rows: Sequence[Difference]
    about: str = ""
    """How the plans differ; empty where they do not."""
    warnings: Sequence[str] = ()

    @property
    def table(self) -> "polars.DataFrame":
        """The rows as a data frame; the interval's ends are the columns low and high."""
        import polars

        columns = {f.name: [getattr(row, f.name) for row in self.rows] for f in fields(Difference)}
        ends = [interval or (None, None) for interval in columns.pop("interval")]
        return polars.DataFrame({**columns, "low": [low for low, _ in ends], "high": [high for _, high in ends]})


def check_levels(levels: Iterable[str]) -> tuple[str, ...]:
    """Return the levels, coarse ones first; raise `InputError` for a word that is none."""
    asked = list(levels)
    wrong = [level for level in asked if level not in LEVELS]
    if wrong or not asked:
        listed = ", ".join(LEVELS)
        said = [f"level is '{word}'; allowed: {listed}{nearest(word, LEVELS)}" for word in wrong]
        raise InputError(said or f"no level is asked for; allowed: {listed}")
    return tuple(level for level in LEVELS if level in asked)


def compare_sides(a: Side, b: Side, levels: Sequence[str] = LEVELS) -> Comparison:
    """Compare two sides at these levels.

    Raises:
        InputError: They answer different tasks.
    """
    if a.kind is not b.kind:
        raise InputError(f"{a.name} is of {a.kind.name}, {b.name} of {b.kind.name}; compare takes two of one kind")
    rows = [row for level in levels for row in _rows(a, b, level)]
    warnings = [*a.warnings, *b.warnings, *unfair(a, b), *_without_table(a, b, levels), *_without_interval(a, b)]
    return Comparison(a=a, b=b, rows=rows, about=about(a, b), warnings=list(dict.fromkeys(warnings)))


def _rows(a: Side, b: Side, level: str) -> Iterator[Difference]:
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
        yield _row(level, address, first.get(address), second.get(address), a.kind, exact=exact)


def _place(at: Address) -> int:
    """Where a phase stands in a step or batch; within one the order stays as it is."""
    return _PHASES.index(at.phase) if at.phase in _PHASES else len(_PHASES)


def _row(level: str, at: Address, a: Figure | None, b: Figure | None, kind: Task, *, exact: bool) -> Difference:
    there = {"level": level, **at._asdict(), "a": a and a.value, "b": b and b.value}
    if a is None or b is None:
        return Difference(**there, verdict=ONLY_B if a is None else ONLY_A)
    ratio = b.value / a.value
    spread = EXACT if exact else ratio_spread(a.spread, b.spread)
    interval = None if exact else interval_of(ratio, spread)
    return Difference(**there, ratio=ratio, interval=interval, verdict=_verdict(at, difference(ratio, spread), kind))


def _verdict(at: Address, found: int, kind: Task) -> str:
    """The word for b being larger (1), smaller (-1) or neither."""
    if found == 0:
        return NO_DIFFERENCE
    if at.quantity.startswith("memory_bytes") or at.quantity in kind.shares:
        return MORE if found > 0 else LESS
    return FASTER if (found > 0) == (at.quantity in kind.rates) else SLOWER


def _without_table(a: Side, b: Side, levels: Sequence[str]) -> Iterator[str]:
    if a.kind.name == "operator" or not {"module", "operator"} & set(levels):
        return
    for side in (a, b):
        if not side.cells:
            yield f"{side.name} has no table: modules and operators are not compared"
        elif side.whole_modules and "operator" in levels:
            yield f"{side.name} does not split every module by operator: the operators of {_few(side)} are not compared"


def _few(side: Side) -> str:
    names = sorted(side.whole_modules)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _without_interval(a: Side, b: Side) -> Iterator[str]:
    """Two predictions do not need it."""
    if not (a.is_measured or b.is_measured):
        return
    for side in (a, b):
        if side.is_bare:
            yield f"how far {side.name} may be off is not known: intervals of ratios leave that out"


def compare(a: Asked, b: Asked, *, levels: Iterable[str] = LEVELS, store: str | None = None) -> Comparison:
    """Compare two profiles figure by figure: b relative to a, with the interval of each ratio.

    Each side is a profile, a run or how its id begins, a file (results as ``--json`` or ``--csv`` writes them; a
    scenario, which is predicted), or ``"predicted"``: the prediction of the other side's scenario.

    Args:
        a: The side that ratios are relative to.
        b: The other one.
        levels: Which of step, phase, memory, module, operator.
        store: Where runs are looked for; default: ``SIGHTLINE_RUNS``.

    Raises:
        InputError: A side cannot be found or is no result, or they answer different tasks.
    """
    asked = check_levels(levels)
    first, second = sides_of(a, b, open_store(store))
    return compare_sides(first, second, asked)
