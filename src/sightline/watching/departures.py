"""When a job departs from what is expected of it, and why: plain rules over the last steps.

The first steps warm up. The next ones are the *baseline*: what a step takes while all goes well, whatever the error of
the prediction. From then on the job is slower when three quarters of its last steps took longer than the baseline by
more than the prediction's 80 % interval, for some seconds on end. A checkpoint or an evaluation now and then does not
count, a change that stays does. What was said is expected from then on: the next steps are a new baseline.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sightline.quantities import BYTES, SECONDS, format_quantity
from sightline.watching.expected import Expected
from sightline.watching.steps import Step, Window, median, window_of

WARM_UP, BASELINE, LAST = 3, 10, 16
"""Steps that are left out, that are the baseline, and that are looked at."""
BASELINE_S, SUSTAINED_S = 1.0, 3.0
"""Seconds that the steps of a baseline take at least, and for which steps must be slower: many of a fast job."""
MOST_KEPT: Final = 10_000
"""Steps that the result of a run is the median of."""
SUSTAINED: Final = 0.75
"""Share of the last steps that must have changed."""
LEAST_SLOWER, MOST_SLOWER = 0.10, 0.50
"""Of the baseline: the least that counts as slower, and the most that an interval can ask for."""
LONGER, SHORTER = 1.05, 0.8
"""Tokens of a sample over those expected from which they are longer, or shorter."""
EXPLAINS: Final = 0.5
"""Share of what steps take longer that a part of theirs must take longer to be the cause."""
NEARLY_FULL: Final = 0.95
COMMUNICATION: Final = ("reduce", "gather", "scatter", "all_to_all", "alltoall", "send", "recv", "broadcast", "comm",
                        "sync", "nccl", "gloo")  # fmt: skip
"""Words in the name of a part by which it is the link's."""
INPUT: Final = "input"


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """What has changed, in a sentence, and what a search of plans has to know of it."""

    cause: str
    """devices, sequences, link, input, part, growing, slower or memory."""
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
        return self.cause != "input"


@dataclass(slots=True, kw_only=True)
class Judge:
    """Looks at the steps of a job as they come."""

    expected: Expected | None = None
    baseline: Window | None = None
    """What a step takes while all goes well."""
    devices: int | None = None
    """Those that are expected."""
    sequence_length: float | None = None
    steady: deque[Step] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    """Steps since the last change, warm-up left out."""
    _fresh: int = 0
    """Steps since the last change."""
    _first: list[Step] = field(default_factory=list)
    _last: deque[Step] = field(default_factory=lambda: deque(maxlen=LAST))
    _blocks: list[float] = field(default_factory=list)
    """Medians of equal numbers of steps since the baseline."""
    _block: list[float] = field(default_factory=list)
    _slow_s: float = 0.0
    """Seconds for which steps have been slower by now."""
    _is_full: bool = False

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
        width = LEAST_SLOWER if self.expected is None else self.expected.half_width
        noise = self.baseline.spread_s[1] / self.baseline.step_time_s - 1.0
        return self.baseline.step_time_s * (1.0 + min(max(width, noise, LEAST_SLOWER), MOST_SLOWER))

    def see(self, steps: Sequence[Step]) -> Iterator[Departure]:
        """Yield what the next steps show."""
        for step in steps:
            self._fresh += 1
            if self._fresh <= WARM_UP:
                continue
            self._last.append(step)
            self.steady.append(step)
            self._learn(step)
            found = self._longer(step) or self._slower(step)
            if found is not None:
                self._expect(found)
                yield found

    def see_devices(self, count: int | None, step: int) -> Departure | None:
        """Return what it means that so many devices work together."""
        if count is None or count == self.devices:
            return None
        before, self.devices = self.devices, count
        if before is None:
            return None
        word = "fewer" if count < before else "more"
        of = f"{count} of {before} devices work" if count < before else f"{count} devices work, not {before}"
        found = self._departure("devices", f"{word} devices: {of}", step, factor=count / before)
        self._restart()
        return found

    def see_memory(self, used: float | None, total: float | None, step: int) -> Departure | None:
        """Return what it means that so many bytes of a device are in use; said once."""
        if not used or not total or self._is_full or used < NEARLY_FULL * total:
            return None
        self._is_full = True
        said = f"{format_quantity(used, BYTES)} of {format_quantity(total, BYTES)} ({used / total:.0%})"
        return self._departure("memory", f"memory is nearly full: {said} are in use", step, factor=used / total)

    def _learn(self, step: Step) -> None:
        """Take a step into the baseline, or into the history since then."""
        if self.baseline is None:
            self._first.append(step)
            if len(self._first) >= BASELINE and sum(one.time_s for one in self._first) >= BASELINE_S:
                self.baseline = window_of(self._first)
                if self.sequence_length is None and (self.expected is None or self._has_equal_samples):
                    self.sequence_length = self.baseline.sequence_length
            return
        self._block.append(step.time_s)
        if len(self._block) == LAST // 2:
            self._blocks.append(median(self._block))
            self._block.clear()

    @property
    def _has_equal_samples(self) -> bool:
        return self.expected is None or self.expected.scenario.workload.lengths is None

    def _longer(self, step: Step) -> Departure | None:
        """Whether samples have become longer, or shorter."""
        expected = self.sequence_length
        known = [one.sequence_length for one in self._last if one.sequence_length]
        if not expected or len(known) < BASELINE:
            return None
        longer = sum(tokens > LONGER * expected for tokens in known)
        shorter = sum(tokens < SHORTER * expected for tokens in known)
        if max(longer, shorter) < SUSTAINED * len(known):
            return None
        now, word = median(known), "longer" if longer > shorter else "shorter"
        said = f"{word} sequences: {now:,.0f} tokens a sample, not {expected:,.0f}"
        return self._departure("sequences", said, step.number, sequence_length=now, factor=now / expected)

    def _slower(self, step: Step) -> Departure | None:
        """Whether steps take longer than they did."""
        bound, before = self.bound_s, self.baseline
        if bound is None or before is None or len(self._last) < LAST:
            return None
        is_slow = sum(one.time_s > bound for one in self._last) >= SUSTAINED * LAST
        self._slow_s = self._slow_s + step.time_s if is_slow else 0.0
        if self._slow_s < SUSTAINED_S:
            return None
        now = window_of([one for one in self._last if one.time_s > bound])
        cause, part, factor = self._cause(before, now)
        ratio = now.step_time_s / before.step_time_s
        took = f"{format_quantity(now.step_time_s, SECONDS)}, {ratio:.2g} x the {_steady(before)} of before"
        said = {
            "link": f"slower link: {part} takes {factor:.2g} x as long as it did, and a step {took}",
            "input": f"slower input: the step waits {format_quantity(now.wait_s, SECONDS)} for it and takes {took}",
            "part": f"slower {part}: it takes {factor:.2g} x as long as it did, and a step {took}",
            "growing": f"steps take longer and longer: now {took}",
            "slower": f"slower steps: one takes {took}",
        }
        return self._departure(cause, said[cause], step.number, part=part, factor=factor)

    def _cause(self, before: Window, now: Window) -> tuple[str, str, float]:
        """The cause, the part that explains it, and how many times what it was that is."""
        more_s = now.step_time_s - before.step_time_s
        was = {**before.parts, INPUT: before.wait_s}
        grown = {name: seconds - was.get(name, 0.0) for name, seconds in {**now.parts, INPUT: now.wait_s}.items()}
        part = max(grown, key=lambda name: grown[name])
        if grown[part] >= EXPLAINS * more_s:
            seconds = was.get(part, 0.0) + grown[part]
            factor = seconds / was[part] if was.get(part) else float("inf")
            is_link = any(word in part.lower() for word in COMMUNICATION)
            return (INPUT if part == INPUT else "link" if is_link else "part"), part, factor
        return "growing" if self._grows() else "slower", "", now.step_time_s / before.step_time_s

    def _grows(self) -> bool:
        """Whether time grew bit by bit: no single jump between neighboring blocks makes half of the whole rise."""
        jumps = [after - before for before, after in zip(self._blocks, self._blocks[1:], strict=False)]
        rise = self._blocks[-1] - self._blocks[0] if jumps else 0.0
        return len(jumps) >= 3 and rise > 0 and max(jumps) < 0.5 * rise

    def _departure(self, cause: str, said: str, step: int, **figures: Any) -> Departure:
        """Return a departure with what is known of the job now."""
        was = None if self.baseline is None else self.baseline.step_time_s
        now = median(one.time_s for one in self._last) if self._last else was
        known: Mapping[str, Any] = {"measured_s": now, "was_s": was, "devices": self.devices,
                                    "sequence_length": self.sequence_length}  # fmt: skip
        return Departure(cause=cause, sentence=said, step=step, **{**known, **figures})

    def _expect(self, found: Departure) -> None:
        """Take what was said as what is expected from now on."""
        self.sequence_length = found.sequence_length
        self._restart()

    def _restart(self) -> None:
        """Learn a new baseline."""
        self._fresh, self.baseline, self._slow_s = 0, None, 0.0
        self._first, self._blocks, self._block = [], [], []
        self._last.clear()
        self.steady.clear()


def _steady(window: Window) -> str:
    return format_quantity(window.step_time_s, SECONDS)
