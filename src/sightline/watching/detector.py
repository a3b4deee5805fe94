"""When a job departs from what is expected of it, and by which cause."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import pstdev
from typing import Any, Final, NamedTuple

from sightline.quantities import BYTES, SECONDS, format_quantity, percent
from sightline.watching.expected import Expected
from sightline.watching.readings import Step, Window, median, window_of

BASELINE, LAST = 10, 16
"""Steps of the baseline of a job that is even, and steps that are held against it."""
BASELINE_S: Final = 1.0
"""Seconds that a baseline takes at least: many steps of a fast job."""
UNEVEN: Final = 0.03
"""Share of the median by which steps scatter (standard deviation) from which a job needs a longer baseline."""
LONG_BASELINE, LONG_S = 96, 1800.0
"""Steps of the baseline of such a job; it ends sooner after so many seconds."""
TRIMMED: Final = 0.25
"""Share of the steps, the longest ones, that a level leaves out: checkpoints and evaluations now and then."""
LEAST_SLOWER, MOST_SLOWER, MOST_NOISE = 0.10, 0.50, 1.0
"""Of the baseline: the least that counts as slower, the most that an interval can ask for, and that noise can."""
LEAST_BLOCKS: Final = 4
"""Blocks of `LAST` steps from whose levels on noise is read that lasts longer than a step."""
NOISES: Final = 4.0
"""Standard deviations of a level that chance alone hardly exceeds in a long job."""
TO_SD: Final = 1.4826
"""Standard deviation over the median absolute deviation of a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What steady steps come to."""

    window: Window
    level_s: float
    """Mean without the longest quarter."""
    noise: float
    """Standard deviation of the level of `looked_at` steps, as a share of it."""
    looked_at: int
    """Steps whose level is held against this one."""
    is_even: bool = True
    """Whether steps scatter little."""

    @property
    def step_time_s(self) -> float:
        """Median."""
        return self.window.step_time_s

    def bound_s(self, half_width: float) -> float:
        """Return the seconds from which a level is slower.

        Args:
            half_width: By how much of itself a prediction may be too small; 0 without one.
        """
        asked = max(min(half_width, MOST_SLOWER), min(NOISES * self.noise, MOST_NOISE))
        return self.level_s * (1.0 + max(asked, LEAST_SLOWER))


def level_of(times: Sequence[float]) -> float:
    """Return the mean of times without the longest quarter."""
    kept = _kept(times)
    return sum(kept) / len(kept)


def _kept(times: Sequence[float]) -> list[float]:
    return sorted(times)[: len(times) - int(TRIMMED * len(times))]


def scatter_of(times: Sequence[float]) -> float:
    """Return the standard deviation of steps as a share of their median; the longest ones now and then do not count.

    From the median absolute deviation, or the steps without the longest quarter where those scatter more: of steps that
    mostly take one time and often another the median deviation is 0.
    """
    middle = median(times)
    if not middle:
        return 0.0
    deviation = TO_SD * median(abs(time - middle) for time in times)
    return max(deviation, pstdev(_kept(times))) / middle


def baseline_of(steps: Sequence[Step]) -> Baseline | None:
    """Return the baseline that steps are; None while it needs more of them."""
    times = [step.time_s for step in steps]
    seconds = sum(times)
    if len(times) < BASELINE or seconds < BASELINE_S:
        return None
    scatter = scatter_of(times)
    if scatter > UNEVEN and len(times) < LONG_BASELINE and seconds < LONG_S:
        return None
    looked_at = max(LAST, min(len(times), LONG_BASELINE) // 2) if scatter > UNEVEN else LAST
    return Baseline(
        window=window_of(steps),
        level_s=level_of(times),
        noise=max(scatter / looked_at**0.5, _slow_noise(times)),
        looked_at=looked_at,
        is_even=scatter <= UNEVEN,
    )


def _slow_noise(times: Sequence[float]) -> float:
    """The scatter of blocks' levels: noise that lasts for many steps shows there, and in no single step."""
    levels = [level_of(times[at : at + LAST]) for at in range(0, len(times) - LAST + 1, LAST)]
    return pstdev(levels) / level_of(levels) if len(levels) >= LEAST_BLOCKS and any(levels) else 0.0


EXPLAINS: Final = 0.5
"""Share of what steps take longer that a part of theirs must take longer to be the cause."""
COMMUNICATION: Final = frozenset((
    *("reduce", "allreduce", "gather", "allgather", "scatter", "all_to_all", "alltoall", "send", "recv", "broadcast"),
    *("comm", "comms", "communication", "sync", "synchronize", "synchronization", "nccl", "rccl", "gloo", "mpi"),
))  # fmt: skip
"""Words in the name of a part by which it is the link's."""
NO_LINK: Final = frozenset(
    ("lr", "log", "logs", "logging", "plot", "plots", "metric", "metrics", "checkpoint", "loss", "head")
)
"""Words by which it is not: ``reduce_lr`` and ``scatter_plot`` are no collectives."""
INPUT: Final = "input"
RARE: Final = 0.75
"""Share of the steps from which on one says steps, and below which one says how many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """What has changed, in a sentence, and what a search of plans has to know of it."""

    cause: str
    """devices, sequences, link, input, part, growing, slower, assumption, recovered or memory."""
    sentence: str
    step: int
    """The last step when it was found."""
    measured_s: float | None = None
    """What a step takes now; None before any was measured."""
    was_s: float | None = None
    """What one took before."""
    devices: int | None = None
    """Those that there are, where that is known."""
    sequence_length: float | None = None
    """Tokens of a sample now, where the job tells."""
    part: str = ""
    """The part that explains it."""
    factor: float = 1.0
    """How many times what it was: the step's time, the part's, or of memory the share in use."""

    @property
    def can_replan(self) -> bool:
        """Whether another plan may be the answer."""
        return self.cause not in (INPUT, "recovered")


class Cause(NamedTuple):
    """Why steps take longer."""

    cause: str
    part: str = ""
    factor: float = 1.0
    """How many times what it was the part takes, or the step."""


def is_link(part: str) -> bool:
    """Return whether the name of a part, such as ``all_reduce`` or ``gradientSync``, is that of communication."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", part)]
    pairs = {"_".join(words[at : at + 3]) for at in range(len(words))}
    return bool(COMMUNICATION & {*words, *pairs}) and not NO_LINK & set(words)


def cause_of(before: Window, now: Window, medians: Sequence[float]) -> Cause:
    """Return why steps take longer than before.

    Args:
        before: The steady steps.
        now: The slow ones.
        medians: Seconds of a step in equal numbers of steps in between, one after another.
    """
    more_s = now.step_time_s - before.step_time_s
    was = {**before.parts, INPUT: before.wait_s}
    grown = {name: seconds - was.get(name, 0.0) for name, seconds in {**now.parts, INPUT: now.wait_s}.items()}
    part = max(grown, key=lambda name: grown[name])
    if grown[part] >= EXPLAINS * more_s:
        seconds = was.get(part, 0.0) + grown[part]
        factor = seconds / was[part] if was.get(part) else float("inf")
        return Cause(INPUT if part == INPUT else "link" if is_link(part) else "part", part, factor)
    return Cause("growing" if grows(medians) else "slower", factor=now.step_time_s / before.step_time_s)


def grows(medians: Sequence[float]) -> bool:
    """Return whether time grew bit by bit: no single jump between neighbors makes half of the whole rise."""
    jumps = [after - before for before, after in pairwise(medians)]
    rise = medians[-1] - medians[0] if jumps else 0.0
    return len(jumps) >= 3 and rise > 0 and max(jumps) < 0.5 * rise


def of_slower(found: Cause, before: Window, now: Window, share: float) -> str:
    """Return what is said of steps of which this share has become slower."""
    ratio = now.step_time_s / before.step_time_s
    took = f"{_time(now.step_time_s)}, {ratio:.2g} x the previous {_time(before.step_time_s)}"
    one = "a step" if share >= RARE else f"{percent(share)} of the steps take"
    takes = f"{one} {took}" if share < RARE else f"one takes {took}"
    of = f"it takes {found.factor:.2g} x the previous time"
    match found.cause:
        case "link":
            return f"slower link: {found.part} takes {found.factor:.2g} x the previous time, and a step {took}"
        case "input":
            return f"slower input: the step waits {_time(now.wait_s)} for input and takes {took}"
        case "part":
            return f"slower {found.part}: {of}, and a step {took}"
        case "growing":
            return f"steps are getting slower: now {took}"
        case _:
            return f"slower steps: {takes}"


def of_assumption(steady_s: float, predicted_s: float, interval: tuple[float, float]) -> str:
    """Return what is said of a job that is slower than its prediction from the start."""
    low, high = map(_time, interval)
    return (
        f"slower than predicted from the start: a steady step takes {_time(steady_s)}, "
        f"{steady_s / predicted_s:.2g} x the predicted {_time(predicted_s)} (80 %: {low} to {high}); check for a "
        "slower link or fewer devices than in the scenario"
    )


def figures_of(departure: Departure) -> Mapping[str, object]:
    """Return what is known of a departure, as events have it."""
    names = ("cause", "step", "measured_s", "was_s", "devices", "sequence_length", "part", "factor")
    return {name: getattr(departure, name) for name in names if getattr(departure, name) is not None}


def _time(seconds: float) -> str:
    return format_quantity(seconds, SECONDS)


WARM_UP: Final = 3
"""Steps that are left out."""
SUSTAINED_S: Final = 3.0
"""Seconds for which steps must be slower: many of a fast job."""
MOST_KEPT: Final = 10_000
"""Steps that the result of a run is the median of."""
SUSTAINED, SOME = 0.75, 0.375
"""Share of the last steps that must have changed, and of those that must be slow for the level to count."""
FASTER: Final = 0.8
"""Of the baseline's level: below it the baseline is learned anew."""
LONGER, SHORTER = 1.05, 0.8
"""Tokens of a sample over those expected from which they are longer, or shorter."""
REVISED: Final = frozenset((LONG_BASELINE // 2, LONG_BASELINE, 2 * LONG_BASELINE, 4 * LONG_BASELINE))
"""Steady steps after which noise is estimated again."""
NEARLY_FULL: Final = 0.95
AS_SLOW, AS_LONG = 1.25, 2.0
"""Times the level, and the steps, of a slow stretch that has passed: what stays below is the same coming again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slow:
    """Steps that have become slower, and what was before."""

    before: Baseline
    level_s: float
    began: int
    """The step at which they became slower."""
    link_factor: float
    """Of the link before."""


@dataclass(slots=True, kw_only=True)
class DepartureDetector:
    """Looks at the steps of a job as they come."""

    expected: Expected | None = None
    baseline: Baseline | None = None
    """What a step takes while all goes well."""
    devices: int | None = None
    """Those that are expected."""
    sequence_length: float | None = None
    link_factor: float = 1.0
    """How many times as long as at the beginning what crosses the links takes."""
    steady: deque[Step] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    """Steps since the last change, warm-up left out."""
    _fresh: int = 0
    """Steps since the last change."""
    _first: list[Step] = field(default_factory=list)
    _last: deque[Step] = field(default_factory=lambda: deque(maxlen=LONG_BASELINE // 2))
    _blocks: list[float] = field(default_factory=list)
    """Medians of equal numbers of steps since the baseline."""
    _block: list[float] = field(default_factory=list)
    _slow_s: float = 0.0
    """Seconds for which the last steps have been slower by now."""
    _slow_steps: int = 0
    _slowed: list[_Slow] = field(default_factory=list)
    """Changes that may pass again."""
    _passed: tuple[float, int] = (0.0, 0)
    """The highest level and the most steps of slow stretches that have passed."""
    _is_full: bool = False
    _is_held: bool = False
    """Whether the first baseline has been held against the prediction."""

    def __post_init__(self) -> None:
        """Expect what the scenario says."""
        if self.expected is not None:
            work = self.expected.scenario.workload
            self.devices = self.expected.devices
            # Samples of unlike lengths are not longer because some are.
            self.sequence_length = float(work.sequence_length) if work.lengths is None else None

    @property
    def bound_s(self) -> float | None:
        """Seconds from which a step counts as slower; None before there is a baseline."""
        if self.baseline is None:
            return None
        return self.baseline.bound_s(0.0 if self.expected is None else self.expected.half_width)

    def see(self, steps: Sequence[Step]) -> Iterator[Departure]:
        """Yield what the next steps show."""
        for step in steps:
            self._fresh += 1
            if self._fresh <= WARM_UP:
                continue
            self._last.append(step)
            self.steady.append(step)
            self._learn(step)
            found = self._longer(step) or self._recovered(step) or self._slower(step) or self._unlike_prediction(step)
            if found is not None:
                yield found

    def see_devices(self, count: int | None, step: int) -> Departure | None:
        """Return what it means that so many devices work together."""
        if count is None or count == self.devices:
            return None
        before, self.devices = self.devices, count
        if before is None:
            return None
        more = f"more devices: {count} are running, up from {before}"
        said = f"fewer devices: {count} of {before} are running" if count < before else more
        found = self._departure("devices", said, step, factor=count / before)
        self._begin_anew()
        return found

    def see_memory(self, used: float | None, total: float | None, step: int) -> Departure | None:
        """Return what it means that so many bytes of a device are in use; said once."""
        if not used or not total or self._is_full or used < NEARLY_FULL * total:
            return None
        self._is_full = True
        said = f"{format_quantity(used, BYTES)} of {format_quantity(total, BYTES)} ({percent(used / total)})"
        return self._departure("memory", f"memory is nearly full: {said} in use", step, factor=used / total)

    def _learn(self, step: Step) -> None:
        """Take a step into the baseline, or into the history since then."""
        if self.baseline is None:
            self._first.append(step)
            self.baseline = baseline_of(self._first)
            if self.baseline is not None and self.sequence_length is None and self._has_equal_samples:
                self.sequence_length = self.baseline.window.sequence_length
            return
        if len(self.steady) in REVISED and not self._slow_steps and not self._passed[1]:
            self._revise()
        self._block.append(step.time_s)
        if len(self._block) == LAST // 2:
            self._blocks.append(median(self._block))
            self._block.clear()

    def _revise(self) -> None:
        """Know noise better that the first steps did not show; an even job keeps the baseline that it has."""
        revised = baseline_of(list(self.steady))
        if revised is not None and not revised.is_even and not grows(self._blocks):
            self.baseline = revised

    @property
    def _has_equal_samples(self) -> bool:
        return self.expected is None or self.expected.scenario.workload.lengths is None

    def _longer(self, step: Step) -> Departure | None:
        """Whether samples have become longer, or shorter."""
        expected = self.sequence_length
        if not expected or not step.sequence_length:
            return None
        if SHORTER * expected <= step.sequence_length <= LONGER * expected:
            return None
        known = [one.sequence_length for one in self._newest(LAST) if one.sequence_length]
        longer = sum(tokens > LONGER * expected for tokens in known)
        shorter = sum(tokens < SHORTER * expected for tokens in known)
        if len(known) < BASELINE or max(longer, shorter) < SUSTAINED * len(known):
            return None
        now = median(known)
        direction = "longer" if longer > shorter else "shorter"
        said = f"{direction} sequences: {now:,.0f} tokens per sample, expected {expected:,.0f}"
        found = self._departure("sequences", said, step.number, sequence_length=now, factor=now / expected)
        self.sequence_length = now
        self._begin_anew()
        return found

    def _slower(self, step: Step) -> Departure | None:
        """Whether steps take longer than they did."""
        bound, before = self.bound_s, self.baseline
        if bound is None or before is None or len(self._last) < before.looked_at:
            return None
        last = self._newest(before.looked_at)
        times = [one.time_s for one in last]
        share = sum(time > bound for time in times) / len(times)
        is_slow = share >= SOME and level_of(times) > bound
        self._slow_s = self._slow_s + step.time_s if is_slow else 0.0
        self._slow_steps = self._slow_steps + 1 if is_slow else 0
        stays = share >= SUSTAINED or self._slow_steps >= len(times)
        if not stays or self._slow_s < SUSTAINED_S or self._has_passed_before(level_of(times)):
            return None
        now = window_of([one for one in last if one.time_s > bound])
        cause = cause_of(before.window, now, self._blocks)
        said = of_slower(cause, before.window, now, share)
        found = self._departure(cause.cause, said, step.number, part=cause.part, factor=cause.factor)
        began = step.number - self._slow_steps - len(times) // 2
        level_s = now.step_time_s if share >= SUSTAINED else level_of(times)
        self._slowed.append(_Slow(before=before, level_s=level_s, began=began, link_factor=self.link_factor))
        if cause.cause == "link" and cause.factor < float("inf"):
            self.link_factor *= cause.factor
        self._restart()
        return found

    def _has_passed_before(self, level_s: float) -> bool:
        """Whether a slow stretch like this one has come and gone before, and this one is not much longer yet."""
        highest, most = self._passed
        return level_s <= AS_SLOW * highest and self._slow_steps <= AS_LONG * most

    def _recovered(self, step: Step) -> Departure | None:
        """Whether steps are as fast as before they became slower; a baseline that is too high is learned anew."""
        looked_at = LAST if self.baseline is None else self.baseline.looked_at
        if len(self._last) < looked_at or not (self._slowed or self.baseline):
            return None
        times = [one.time_s for one in self._newest(looked_at)]
        level_s = level_of(times)
        if not self._slowed:
            if self.baseline is not None and level_s < FASTER * self.baseline.level_s:
                self._restart()
            return None
        slow = self._slowed[-1]
        between_s = (slow.before.level_s + slow.level_s) / 2.0
        if max(level_s, median(times)) > between_s:
            return None
        now_s = median(time for time in times if time <= between_s)
        said = f"recovered: a step takes {_time(now_s)} again, down from {_time(slow.level_s)}"
        found = self._departure("recovered", said, step.number, measured_s=now_s, factor=now_s / slow.level_s)
        self._come_back(slow, step)
        return found

    def _come_back(self, slow: _Slow, step: Step) -> None:
        """Expect what was expected before steps became slower."""
        self._slowed.pop()
        highest, most = self._passed
        self._passed = max(highest, slow.level_s), max(most, step.number - slow.began)
        self._restart()
        self.baseline, self._fresh, self.link_factor = slow.before, WARM_UP, slow.link_factor

    def _unlike_prediction(self, step: Step) -> Departure | None:
        """Whether the first baseline is slower than the prediction can be: then an assumption is wrong."""
        if self._is_held or self.baseline is None or self.expected is None:
            return None
        self._is_held = True
        steady_s, predicted_s = self.baseline.step_time_s, self.expected.step_time_s
        if steady_s <= self.expected.interval[1]:
            return None
        said = of_assumption(steady_s, predicted_s, self.expected.interval)
        factor = steady_s / predicted_s
        return self._departure("assumption", said, step.number, measured_s=steady_s, was_s=predicted_s, factor=factor)

    def _newest(self, count: int) -> list[Step]:
        return list(self._last)[-count:]

    def _departure(self, cause: str, said: str, step: int, **figures: Any) -> Departure:
        """Return a departure with what is known of the job now."""
        was = None if self.baseline is None else self.baseline.step_time_s
        times = [one.time_s for one in self._newest(LAST)]
        # Of steps that are slow now and then the median says nothing.
        now = max(median(times), level_of(times)) if times else was
        known: Mapping[str, Any] = {"measured_s": now, "was_s": was, "devices": self.devices,
                                    "sequence_length": self.sequence_length}  # fmt: skip
        return Departure(cause=cause, sentence=said, step=step, **{**known, **figures})

    def _begin_anew(self) -> None:
        """Learn a new baseline in a situation in which no earlier one means anything."""
        self._slowed, self._passed, self._is_held = [], (0.0, 0), True
        self._restart()

    def _restart(self) -> None:
        """Learn a new baseline."""
        self._fresh, self.baseline, self._slow_s, self._slow_steps = 0, None, 0.0, 0
        self._first, self._blocks, self._block = [], [], []
        self._last.clear()
        self.steady.clear()
