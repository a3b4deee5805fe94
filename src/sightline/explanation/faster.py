"""Which of two predicted plans is the faster, and how likely that is: the part that their errors share cancels."""

from dataclasses import dataclass
from math import log
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.explanation.side import Side, Spread, interval_of, ratio_spread, spread_of
from sightline.loading import load
from sightline.profile import TRAINING
from sightline.quantities import FOUR_IN_FIVE, percent
from sightline.scenario import Scenario

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

RATES = ("tokens_per_s", "output_tokens_per_s")
"""What the faster one has more of, by task: also plans of different batches can be ranked by it."""
A, B, UNSEEN, UNKNOWN = "A", "B", "no difference that the uncertainty lets one see", "nothing can be said"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faster:
    """Which of two predictions is the faster."""

    verdict: str
    """A, B, "no difference that the uncertainty lets one see" where the interval holds 1, or "nothing can be said"."""
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
        what = f"{bare} {'have' if ' and ' in bare else 'has'} no interval, as a bound (framework: reference) has none"
        return Faster(verdict=UNKNOWN, sentence=f"{what}: {UNKNOWN} about which is the faster")
    ratio = b.figures[key] / a.figures[key]
    return _ranked(key, ratio, ratio_spread(spreads[0], spreads[1], correlation), correlation)


def _ranked(key: str, ratio: float, spread: Spread, correlation: float) -> Faster:
    low, high = interval_of(ratio, spread)
    likely = likely_smaller(log(ratio), spread)
    verdict = UNSEEN if low <= 1.0 <= high else A if ratio < 1.0 else B
    first, chance = (A, likely) if likely >= 0.5 else (B, 1.0 - likely)
    chance = min(chance, 0.99)
    odds = f"{first} is the faster with a probability of {'over ' * (chance == 0.99)}{percent(chance)}"
    if abs(likely - 0.5) < 0.005:
        odds = "either is as likely the faster"
    span = f"B reaches {ratio:.3g} x the tokens/s of A (80 %: {low:.3g} to {high:.3g})"
    said = f"{verdict}: {span}, {odds}" if verdict == UNSEEN else f"{odds}: {span}"
    shared = "" if correlation else "; their errors are taken as independent"
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
    from sightline.prediction.anchoring.pair import correlation

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
