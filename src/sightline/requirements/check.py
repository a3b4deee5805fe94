"""A scenario held against what is required of it: whether its answer meets each requirement, in sentences."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sightline.anchors.corrected import anchored, find_capacity, predict, simulate
from sightline.errors import InputError
from sightline.profile import SERVING, TRAINING, Profile, task_of
from sightline.quantities import GIB, Dimension, as_json, format_quantity, significant
from sightline.requirements.expression import COMPARED, FITS, Requirement, read, split

if TYPE_CHECKING:
    import polars

    from sightline.anchors.sources import Given
    from sightline.prediction.anchoring import Anchored
    from sightline.scenario import GenerationScenario, OperatorScenario, Scenario, ServingScenario

_DIGITS, _MOST_DIGITS = 3, 15
_BASE_UNITS = ("s", "tokens", "tokens/s", "requests/s", "USD")
"""Units in which figures are read as they are."""
_LEAST, _MOST = 1e-3, 1e6
"""Between which a bound without a unit is read in such a unit."""


@dataclass(frozen=True, slots=True)
class Notation:
    """How the figures of one requirement are written."""

    dimension: Dimension | None
    """Writes each figure in the unit that suits it, where no ``unit`` was typed."""
    unit: str = ""
    scale: float = 1.0
    """One of the unit in the base unit."""

    @classmethod
    def of(cls, requirement: Requirement) -> "Notation":
        """Return the notation in which a requirement's bound was typed."""
        text, dimension = requirement.written.strip("'\" "), requirement.dimension
        if requirement.figure.unit == "share" or dimension is None:
            return cls(None, " %", 0.01) if text.endswith("%") else cls(None)
        units = sorted(dimension.units, key=len, reverse=True)
        unit = next((unit for unit in units if unit.strip() and text.endswith(unit)), None)
        if unit is not None:
            return cls(dimension, f" {unit.strip()}", dimension.units[unit])
        bound, base = float(requirement.bound or 0.0), requirement.figure.unit
        is_read = base in _BASE_UNITS and (bound == 0 or _LEAST <= bound < _MOST)
        return cls(dimension, f" {base}") if is_read else cls(dimension)

    def beside(self, value: float, other: float | None) -> str:
        """Return a figure with as many digits as tell it from the ``other`` one, if that is another."""
        if other is None or value == other:
            return self._shown(value, _DIGITS)
        digits = range(_DIGITS, _MOST_DIGITS)
        apart = (n for n in digits if self._shown(value, n) != self._shown(other, n))
        return self._shown(value, next(apart, _MOST_DIGITS))

    def between(self, low: float, high: float, other: float) -> str:
        """Return both ends of an interval, the unit once where they share it."""
        ends = [self.beside(low, other), self.beside(high, other)]
        numbers, units = zip(*(end.partition(" ")[::2] for end in ends), strict=True)
        return f"{numbers[0]} to {ends[1]}" if units[0] == units[1] else " to ".join(ends)

    def _shown(self, value: float, digits: int) -> str:
        if self.dimension is not None and not self.unit:
            return format_quantity(value, self.dimension, digits=digits)
        return f"{significant(value / self.scale, digits):,.{_MOST_DIGITS}g}{self.unit}"


Interval: TypeAlias = tuple[float, float | None]
"""Both ends of an 80 % interval; without an upper end it is a bound."""

_IN_WORDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than", "==": "exactly", "!=": "other than"}
_OF_A_RUN = ("total_tokens", "steps", "run_time_s", "energy_j", "cost_usd")
"""Figures of a training that need to know how long it is."""
_OF_AN_OBJECTIVE = ("goodput_requests_per_s", "good_share", "capacity_requests_per_s")
"""Figures of a load that need an objective."""
_OF_FURTHER_TOKENS = ("tpot_s", "itl_s")
"""Times between tokens, which a single one has not."""
_LOWER = (">=", ">")
_NO_INTERVAL = " (no interval)"
_EXACT = ("usd_per_hour", "total_tokens", "steps", "model_flops", "hardware_flops", "peak_flops", "flops", "bytes")
"""Figures that follow from the scenario alone, so that no prediction errs about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A requirement, the figure that it is about, and whether that meets it."""

    require: str
    """As it was typed."""
    key: str
    """The result key of the figure."""
    operator: str
    """Empty for whether it fits."""
    bound: float | str | None
    """In the base unit of the figure."""
    value: float | str | bool | None
    """The figure; None where it is not known."""
    interval: Interval | None
    """Its 80 % interval; None where none is known."""
    met: bool
    sentence: str


def judged(requirement: Requirement, profile: Profile, *, whole_interval: bool = False) -> Judged:
    """Return whether an answer meets a requirement; with ``whole_interval`` the whole 80 % interval has to."""
    key = requirement.figure.key
    value, interval = value_of(profile, key), _interval(profile, "memory_bytes.total" if key == FITS else key)
    if key == FITS:
        met, sentence = _fitting(profile, interval, whole_interval=whole_interval)
    else:
        has_error = not (requirement.figure.words or key in _EXACT)
        met = _meets(requirement, value, interval if whole_interval else None)
        met = met and not (whole_interval and has_error and interval is None)
        where = " over the whole interval" if whole_interval and has_error else ""
        sentence = _sentence(requirement, profile, value, interval, where)
    return Judged(
        require=requirement.require,
        key=key,
        operator=requirement.operator,
        bound=requirement.bound,
        value=value,
        interval=interval,
        met=met,
        sentence=f"{sentence}: {'met' if met else 'not met'}",
    )


def value_of(profile: Profile, key: str) -> Any:
    """Return a single figure of an answer, also a part of its memory or its phases; None where it is not known."""
    found = profile.figure(key)
    if isinstance(found, Mapping):
        return float(sum(found.values()))  # requests that were refused, by reason
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else found


def _interval(profile: Profile, key: str) -> Interval | None:
    low, high = profile.interval.get(key, (None, None))
    return None if low is None else (float(low), None if high is None else float(high))


def _meets(requirement: Requirement, value: Any, interval: Interval | None) -> bool:
    """Whether the figure is as required; with an ``interval``, whether both its ends are too."""
    compared, bound = COMPARED[requirement.operator], requirement.bound
    if value is None or not compared(value, bound):
        return False
    # Of a lower bound the low end decides; the high one may be unknown.
    ends = (interval or ())[: 1 if requirement.operator in _LOWER else 2]
    return all(end is not None and compared(end, bound) for end in ends)


def _fitting(profile: Profile, interval: Interval | None, *, whole_interval: bool) -> tuple[bool, str]:
    """Whether a plan fits as is required, and the figures.

    An engine that serves gives its KV cache all memory that is left, which is no need.
    """
    serves = profile.task is SERVING
    cache = float(profile.memory_bytes["kv_cache"]) if serves else 0.0
    needed, usable = float(profile.memory_bytes["total"]) - cache, float(profile.usable_bytes)
    said = f"fits is {'true' if profile.fits else 'false'}: needs {needed / GIB:.1f} of {usable / GIB:.1f} GiB"
    if serves:
        said += f" without the KV cache ({cache / GIB:.1f} GiB)"
    if interval is not None and interval[1] is not None:
        said += f" (80 % interval {interval[0] / GIB:.1f} to {interval[1] / GIB:.1f} GiB)"
    elif whole_interval:
        said += _NO_INTERVAL
    if not (serves or profile.fits) and needed <= usable:
        said += ", but the offloaded state does not fit in host memory"
    if whole_interval:
        said += ": required over the whole interval"
    return bool(profile.fits) and not (whole_interval and (interval is None or profile.tight)), said


def _sentence(requirement: Requirement, profile: Profile, value: Any, interval: Interval | None, where: str) -> str:
    """The figure with its interval, and what is required of it ``where``."""
    if isinstance(requirement.bound, str):
        word = "other than " if requirement.operator == "!=" else ""
        known = "unknown" if value is None else value
        return f"{requirement.name} is {known}; required: {word}{requirement.bound}"
    written, bound = Notation.of(requirement), float(requirement.bound or 0.0)
    asked = f"required: {_IN_WORDS[requirement.operator]} {written.beside(bound, value)}{where}"
    if value is None:
        return f"{requirement.name} is unknown{_reason(profile, requirement.figure.key)}; {asked}"
    spread = _spread(interval, bound, written) if interval or not where else _NO_INTERVAL
    return f"{requirement.name} is {written.beside(value, bound)}{spread}; {asked}"


def _spread(interval: Interval | None, bound: float, written: Notation) -> str:
    """An interval in brackets; empty without one."""
    if interval is None:
        return ""
    low, high = interval
    ends = f"from {written.beside(low, bound)}" if high is None else written.between(low, high, bound)
    return f" (80 % interval {ends})"


def _reason(profile: Profile, key: str) -> str:
    """Why a figure is not known, where that is known."""
    if profile.task is TRAINING and key in _OF_A_RUN and profile.scenario.workload.total_tokens is None:
        return " (set workload.total_tokens or workload.samples)"
    if key.startswith("cost_usd") and profile.scenario.cluster.usd_per_hour is None:
        return " (a device has no price)"
    if profile.task is SERVING and key in _OF_AN_OBJECTIVE and profile.scenario.workload.slo is None:
        return " (set workload.slo)"
    if profile.task is SERVING and profile.fits and not profile.completed:
        return " (no request is answered)"
    if key.startswith(_OF_FURTHER_TOKENS) and not (profile.task is SERVING and profile.fits is False):
        return " (undefined for one output token)"
    return " (the plan does not fit in memory)" if profile.fits is False else ""


_CAPACITY = "capacity_requests_per_s"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checked:
    """An answer, and what was required of it."""

    profile: Profile
    """The prediction; of a load that is served, its simulation."""
    required: Sequence[Judged]
    """One for each requirement, in the order in which they were typed."""
    whole_interval: bool = False
    """Whether the whole 80 % interval of each figure had to meet them."""

    @property
    def met(self) -> bool:
        """Whether every requirement is met."""
        return all(one.met for one in self.required)

    @property
    def sentences(self) -> list[str]:
        """What each requirement came to, with the figure."""
        return [one.sentence for one in self.required]

    @property
    def warnings(self) -> list[str]:
        """Warnings of the prediction; also that a plan does not fit, where that was not asked."""
        found = [*self.profile.scenario.warnings, *self.profile.warnings]
        if self.profile.fits is False and FITS not in {one.key for one in self.required}:
            found.append("the plan does not fit in memory; add 'fits' to require it")
        return list(dict.fromkeys(found))

    @property
    def table(self) -> "polars.DataFrame":
        """What was required as a data frame: a row for each requirement, with its figure in SI units and 80 % interval.

        Whether a plan fits, and what binds it, is a ``word`` and no ``value``.
        """
        import polars

        intervals = [one.interval or (None, None) for one in self.required]
        return polars.DataFrame(
            {
                "requirement": [one.require for one in self.required],
                "key": [one.key for one in self.required],
                "value": [one.value if isinstance(one.value, float) else None for one in self.required],
                "word": [_word(one.value) for one in self.required],
                "low": [low for low, _ in intervals],
                "high": [high for _, high in intervals],
                "met": [one.met for one in self.required],
            },
            schema_overrides={"word": polars.String} | dict.fromkeys(("value", "low", "high"), polars.Float64),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the documented keys: ``met``, ``required``, and the scenario."""
        from sightline.loading import to_mapping
        from sightline.profile.results import stamped

        document: dict[str, Any] = as_json(
            stamped(
                {
                    "scenario": to_mapping(self.profile.scenario),
                    "source": self.profile.source,
                    "met": self.met,
                    "whole_interval": self.whole_interval,
                    "required": [asdict(one) for one in self.required],
                    "warnings": self.warnings,
                }
            )
        )
        return document

    def __repr__(self) -> str:
        kept = sum(one.met for one in self.required)
        return f"<{kept} of {len(self.required)} requirements met: {'; '.join(self.sentences)}>"


def _word(value: float | str | bool | None) -> str | None:
    """A value that is no figure, as JSON has it."""
    return str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else None


def check(
    scenario: "Scenario | OperatorScenario | GenerationScenario | ServingScenario",
    require: str | Iterable[str],
    *,
    whole_interval: bool = False,
    anchor: "Anchored | Iterable[Given] | Given" = (),
) -> Checked:
    """Predict a scenario - a load that is served is simulated - and hold the answer against what is required of it.

        found = sl.check(sl.load("examples/llama-2-7b-zero2-8xa800.yaml"), "fits, mfu >= 0.15, memory <= 40 GB")
        found.met, found.sentences, found.required[1].value

    Args:
        scenario: Of any task.
        require: Requirements, separated by commas or in a list: ``fits``, or a result key or its short name
            (``ttft_p90`` of ``ttft_s.p90``, ``memory``), an operator and a bound with or without a unit.
        whole_interval: Whether the whole 80 % interval of each figure has to meet its requirement; a figure without an
            interval then meets none.
        anchor: Runs of one's own cluster that correct the prediction, as `predict` takes them.

    Raises:
        InputError: A requirement names no figure of the task, or what `predict` or `simulate` refuse.
    """
    required = requirements(require, [scenario])[0]
    profile = _answer(scenario, required, anchored(anchor) if anchor else ())
    return Checked(
        profile=profile,
        required=[judged(one, profile, whole_interval=whole_interval) for one in required],
        whole_interval=whole_interval,
    )


def requirements(require: str | Iterable[str], scenarios: Sequence[Any]) -> list[list[Requirement]]:
    """Return what is required of the answer to each scenario.

    Raises:
        InputError: Some requirement is none of a scenario; each mistake is said once, with the scenarios that have it
            where others do not.
    """
    texts = split(require)
    found: list[list[Requirement]] = []
    problems: dict[str, list[str]] = {}
    for place, scenario in enumerate(scenarios, 1):
        try:
            found.append(read(texts, scenario))
        except InputError as error:
            for problem in error.problems:
                problems.setdefault(problem, []).append(scenario.name or f"scenario {place}")
    if problems:
        raise InputError([_told(problem, names, len(scenarios)) for problem, names in problems.items()])
    return found


def _told(problem: str, names: Sequence[str], scenarios: int) -> str:
    """A mistake, after the names of the scenarios that have it where that is not all of them."""
    if len(names) == scenarios:
        return problem
    *others, last = dict.fromkeys(names)
    return f"{f'{last} and {len(others):,} more' if others else last}: {problem}"


def _answer(scenario: Any, required: Sequence[Requirement], known: Any) -> Profile:
    """The prediction, of a load its simulation; the capacity of a server is searched only where it is required."""
    if task_of(scenario.workload.task) is not SERVING:
        return predict(scenario, anchor=known)
    answer = simulate(scenario, anchor=known)
    if _CAPACITY not in {one.figure.key for one in required}:
        return answer
    found = find_capacity(scenario, anchor=known)
    span = {} if found.interval is None else {_CAPACITY: found.interval}
    return answer.replace(capacity_requests_per_s=found.rate, interval={**answer.interval, **span})
