"""What steps take while all goes well, how much that varies, and from where on they count as slower."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import pstdev
from typing import Final

from sightline.watching.steps import Step, Window, median, window_of

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
