"""One of two profiles that are compared: its figures with how far each may be off, and which of two is the faster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, hypot, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

from sightline.errors import InputError
from sightline.loading import load
from sightline.profile import TRAINING, Task
from sightline.quantities import FOUR_IN_FIVE, percent, relative, relative_span
from sightline.scenario import Scenario

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored
    from sightline.simulation.outcome import Outcome

LEVELS = ("step", "request", "phase", "memory", "module", "operator")
"""From coarse to fine: key figures, times of the same requests of a load, seconds by phase, bytes by part, seconds by
module, seconds by operator."""

ALL = "all"
"""The operator of a row that stands for a module that is not split by operator."""


INTERVAL, CERTAINTY = 0.8, 0.99
"""Probability with which a figure's interval holds it, and with which the interval of a ratio to a measurement does: a
table has many rows, and one in five would seem to have changed if 80 % intervals decided."""
WIDER = NormalDist().inv_cdf(0.5 + CERTAINTY / 2) / NormalDist().inv_cdf(0.5 + INTERVAL / 2)
RUN_TO_RUN, BUSY = 0.01, 0.1
"""Half-widths of the error that samples of one measurement do not show, natural logarithm: another process
finds other memory and another clock, and shares a busy machine with others."""
SAME = 1e-3
"""Two figures without any noise are the same up to this."""


class Spread(NamedTuple):
    """Distances from a figure to the ends of its 80 % interval, in its natural logarithm."""

    down: float
    up: float

    @property
    def is_exact(self) -> bool:
        """Whether it is too small to be worth an interval."""
        return max(self) < SAME

    @property
    def mirrored(self) -> "Spread":
        """That of the figure's reciprocal."""
        return Spread(self.up, self.down)

    def joined(self, other: "Spread") -> "Spread":
        """With an independent error added."""
        return Spread(hypot(self.down, other.down), hypot(self.up, other.up))


EXACT, ANOTHER_RUN, ANOTHER_BUSY_RUN = (Spread(width, width) for width in (0.0, RUN_TO_RUN, BUSY))


def spread_of(value: float, ends: tuple[float, float | None] | None) -> Spread | None:
    """Return the spread that an interval's ends say; None where they say nothing."""
    if ends is None or ends[1] is None or value <= 0 or not 0 < ends[0] <= ends[1]:
        return None
    return Spread(max(log(value / ends[0]), 0.0), max(log(ends[1] / value), 0.0))


def ratio_spread(a: Spread, b: Spread, correlation: float = 0.0) -> Spread:
    """Return the spread of b / a of figures whose errors have this ``correlation``.

    Each end of the ratio joins the ends of both that lead there, by the root of the squares of their distances in the
    logarithm, less what both have in common (MOVER: Donner and Zou, Statistics in Medicine 2002, 21:1841; Zou,
    Psychological Methods 2007, 12:399; no distribution is assumed).
    """
    return Spread(_apart(b.down, a.up, correlation), _apart(b.up, a.down, correlation))


def _apart(a: float, b: float, correlation: float) -> float:
    return sqrt(max(a**2 + b**2 - 2.0 * correlation * a * b, 0.0))


def interval_of(ratio: float, spread: Spread, probability: float = INTERVAL) -> tuple[float, float]:
    """Return the interval that holds a ratio with this ``probability``, 0.8 or 0.99."""
    wider = WIDER if probability == CERTAINTY else 1.0
    return ratio * exp(-wider * spread.down), ratio * exp(wider * spread.up)


def difference(ratio: float, interval: tuple[float, float] | None) -> int:
    """Return 1 where b is certainly larger than a, -1 where it is smaller, 0 where no difference is found.

    The interval of the ratio decides: no difference is found where it holds 1. Exact figures have none, and differ by
    more than one part in a thousand.
    """
    low, high = interval or (ratio * exp(-SAME), ratio * exp(SAME))
    return 1 if low > 1.0 else -1 if high < 1.0 else 0


class Address(NamedTuple):
    """Which figure of a profile: a result key, or the ``time_s`` of a phase, module or operator."""

    quantity: str
    phase: str | None = None
    module: str | None = None
    operator: str | None = None


class Figure(NamedTuple):
    """A value in SI units, and how far it may be off."""

    value: float
    spread: Spread


class Cell(NamedTuple):
    """A row of a profile's table: seconds at an address, with their own 80 % interval where they have one."""

    phase: str
    module: str
    operator: str
    time_s: float
    low_s: float | None = None
    high_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A profile, predicted or measured, as far as it can be compared."""

    name: str
    """What it was asked for by: a run, a file, predicted."""
    title: str
    """The scenario's name."""
    source: str
    """predicted or measured."""
    kind: Task
    scenario: Mapping[str, Any]
    """As a scenario file says it; empty where it is not known."""
    figures: Mapping[str, float]
    phases: Mapping[str, float]
    memory_bytes: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    """80 % intervals by result key; parts under dotted keys such as ``phases.forward``."""
    cells: Sequence[Cell] = ()
    is_contended: bool = False
    """It was measured while others used the machine too."""
    is_anchored: bool = False
    """It was predicted with what runs of one's own cluster taught."""
    fits: bool = True
    """Whether a prediction's memory is enough."""
    warnings: Sequence[str] = ()
    outcome: "Outcome | None" = None
    """What became of each request of a load, where it is known."""
    answered: int | None = None
    """Requests of a load that got their last token."""
    unanswered: Mapping[str, int] = field(default_factory=dict)
    """Those that did not, by reason."""

    @property
    def is_measured(self) -> bool:
        """Whether its figures have noise."""
        return self.source == "measured"

    @property
    def whole_modules(self) -> frozenset[str]:
        """Modules that are not split by operator."""
        return frozenset(c.module for c in self.cells if c.operator == ALL)

    @property
    def is_bare(self) -> bool:
        """Whether it does not say how far its headline may be off."""
        return self._of_headline(self.kind.whole) is None

    def at(self, level: str) -> dict[Address, Figure]:
        """Return the figures of a level by address.

        One of 0, such as seconds per further token of a single one, is none.
        """
        match level:
            case "step":
                return {Address(k): Figure(v, self._of_figure(k, v)) for k, v in self.figures.items() if v > 0}
            case "phase":
                return {Address("time_s", p): Figure(s, self._of_phase(p, s)) for p, s in self.phases.items() if s > 0}
            case "memory":
                parts = {part: size for part, size in self.memory_bytes.items() if size > 0}
                return {Address(f"memory_bytes.{p}"): Figure(v, self._of_bytes(p, v)) for p, v in parts.items()}
            case "request":
                return {}
            case "module":
                return self._added((Address("time_s", c.phase, c.module), c) for c in self.cells)
            case _:
                return self._added((Address("time_s", c.phase, c.module, c.operator), c) for c in self.cells)

    def _added(self, cells: Iterable[tuple[Address, Cell]]) -> dict[Address, Figure]:
        """Rows of one address added up; their errors are taken to have the same sign."""
        sums: dict[Address, Cell] = {}
        for address, cell in cells:
            sums[address] = _sum(sums[address], cell) if address in sums else cell
        return {address: Figure(cell.time_s, self._of_cell(cell)) for address, cell in sums.items() if cell.time_s > 0}

    def _of_figure(self, key: str, value: float) -> Spread:
        own = spread_of(value, self.intervals.get(key))
        if own is None:
            headline = self._of_headline(self.kind.whole) or EXACT
            own = headline.mirrored if key in self.kind.rates else headline
        return self._between_runs(own)

    def _of_phase(self, phase: str, seconds: float) -> Spread:
        return self._between_runs(spread_of(seconds, self.intervals.get(f"phases.{phase}")) or self._of_part(phase))

    def _of_cell(self, cell: Cell) -> Spread:
        ends = None if cell.low_s is None or cell.high_s is None else (cell.low_s, cell.high_s)
        return self._between_runs(spread_of(cell.time_s, ends) or self._of_part(cell.phase))

    def _of_bytes(self, part: str, size: float) -> Spread:
        """A prediction's bytes are what they are; a measurement's differ between runs."""
        own = spread_of(size, self.intervals.get(f"memory_bytes.{part}")) or EXACT
        return own.joined(ANOTHER_RUN) if self.is_measured else own

    def _of_part(self, phase: str) -> Spread:
        """That of the time which a part of a phase is part of."""
        whole = self._of_headline(self.kind.phase_times.get(phase, self.kind.whole))
        return whole or self._of_headline(self.kind.whole) or EXACT

    def _of_headline(self, key: str) -> Spread | None:
        return spread_of(self.figures.get(key, 0.0), self.intervals.get(key))

    def _between_runs(self, spread: Spread) -> Spread:
        if not self.is_measured:
            return spread
        return spread.joined(ANOTHER_BUSY_RUN if self.is_contended else ANOTHER_RUN)


def _sum(a: Cell, b: Cell) -> Cell:
    low, high = (None if one is None or other is None else one + other for one, other in zip(a[4:], b[4:], strict=True))
    return Cell(a.phase, a.module, a.operator, a.time_s + b.time_s, low, high)


RATES = ("tokens_per_s", "output_tokens_per_s")
"""What the faster one has more of, by task: also plans of different batches can be ranked by it."""
A, B, UNSEEN, UNKNOWN = "A", "B", "no difference within the uncertainty", "not comparable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faster:
    """Which of two predictions is the faster."""

    verdict: str
    """A, B, "no difference within the uncertainty" where the interval holds 1, or "not comparable"."""
    sentence: str
    quantity: str = ""
    """The result key by which they are ranked."""
    ratio: float | None = None
    """Of that result: b / a."""
    interval: tuple[float, float] | None = None
    """80 % of the ratio."""
    a_is_faster: float | None = None
    """Probability that a is the faster."""
    correlation: float | None = None
    """Of both predictions' errors: what they share cancels in the ratio."""


def faster(a: Side, b: Side, correlation: float) -> Faster | None:
    """Return which of two predictions is the faster; None where one is measured or they are of single operators."""
    key = next((key for key in RATES if key in a.figures and key in b.figures), None)
    if a.is_measured or b.is_measured or key is None:
        return None
    spreads = [spread_of(side.figures[key], side.intervals.get(key)) for side in (a, b)]
    if spreads[0] is None or spreads[1] is None:
        bare = " and ".join(name for name, spread in zip((A, B), spreads, strict=True) if spread is None)
        what = f"{bare} {'have' if ' and ' in bare else 'has'} no interval (framework: reference is a bound)"
        return Faster(verdict=UNKNOWN, sentence=f"{what}: {UNKNOWN}")
    ratio = b.figures[key] / a.figures[key]
    return _ranked(key, ratio, ratio_spread(spreads[0], spreads[1], correlation), correlation)


def _ranked(key: str, ratio: float, spread: Spread, correlation: float) -> Faster:
    low, high = interval_of(ratio, spread)
    likely = likely_smaller(log(ratio), spread)
    verdict = UNSEEN if low <= 1.0 <= high else A if ratio < 1.0 else B
    first, chance = (A, likely) if likely >= 0.5 else (B, 1.0 - likely)
    chance = min(chance, 0.99)
    sure = f"with a probability of {'over ' * (chance == 0.99)}{percent(chance)}"
    odds = "both are equally likely to be faster" if abs(likely - 0.5) < 0.005 else f"{first} is faster {sure}"
    # A token takes the reciprocal of the rate, so that the sentence has the percentage of the time.
    span = f"B is {relative(1.0 / ratio)} per token (80 %: {relative_span(1.0 / high, 1.0 / low)})"
    said = f"{verdict}: {span}; {odds}" if verdict == UNSEEN else f"{span}, {sure}"
    shared = "" if correlation else "; errors are assumed independent"
    return Faster(
        verdict=verdict,
        sentence=said + shared,
        quantity=key,
        ratio=ratio,
        interval=(low, high),
        a_is_faster=likely,
        correlation=correlation,
    )


def likely_smaller(reach: float, spread: Spread) -> float:
    """Return the probability that the logarithm of a ratio, ``reach`` with its 80 % ``spread``, is below 0."""
    width = (spread.up if reach < 0 else spread.down) / FOUR_IN_FIVE
    if width < 1e-9:
        return 0.5 if abs(reach) < 1e-9 else float(reach < 0)
    return NormalDist().cdf(-reach / width)


def shared_error(a: Side, b: Side, known: "Anchored | None" = None) -> float:
    """Return the correlation of two predictions' errors; 0 where nothing is known of it, as in generation.

    What an anchor has taught is no longer shared: nothing is known without its steps, or where one side has not learned
    from them.
    """
    is_anchored = a.is_anchored or b.is_anchored
    if a.is_measured or b.is_measured or a.kind is not TRAINING:
        return 0.0
    if is_anchored and not (known and a.is_anchored and b.is_anchored):
        return 0.0
    from sightline.prediction import predict
    from sightline.prediction.anchoring.anchored_steps import correlation

    try:
        first, second = (load(dict(side.scenario)) for side in (a, b))
    except InputError:
        return 0.0
    if not isinstance(first, Scenario) or not isinstance(second, Scenario):
        return 0.0
    both = [one if one.plan.micro_batch is not None else predict(one).scenario for one in (first, second)]
    return correlation(both[0], both[1], known.steps if known and is_anchored else None)


def to_dict(found: Faster) -> dict[str, Any]:
    """Return the documented key ``faster``."""
    keys = ("verdict", "sentence", "quantity", "ratio", "interval", "a_is_faster", "correlation")
    return {key: value for key in keys if (value := getattr(found, key)) not in (None, "")}
