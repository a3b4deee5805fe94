"""The rule of a comparison's verdicts: what the printed interval says, for every row and whatever is compared."""

import math
from functools import cache

from compared_plans import TRAINING
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.answers import comparison as words
from sightline.explanation.comparison import compare_sides
from sightline.explanation.reading import side_of_profile


def lasting(profile, factor, spread):
    """The profile with all times longer by a factor, and its step time known to ``spread``."""
    step_s = profile.step_time_s * factor
    return profile.replace(
        step_time_s=step_s,
        phases={phase: s * factor for phase, s in profile.phases.items()},
        rows=[row.lasting(row.time_s * factor) for row in profile.rows],
        interval={"step_time_s": (step_s * math.exp(-spread), step_s * math.exp(spread))},
    )


WIDTHS = st.floats(0.0, 0.5)


@settings(max_examples=60, deadline=None)
@given(factor=st.floats(0.3, 3.0), first=WIDTHS, second=WIDTHS, are_measured=st.tuples(st.booleans(), st.booleans()))
def test_the_printed_interval_decides_every_verdict(factor, first, second, are_measured):
    """Also where its ends are close to 1, and whichever sides are measured."""
    profile = predicted_once()
    pair = (lasting(profile, 1.0, first), lasting(profile, factor, second))
    sources = ["measured" if one else "predicted" for one in are_measured]
    a, b = (side_of_profile(p.replace(source=of), of) for p, of in zip(pair, sources, strict=True))
    rows = compare_sides(a, b, levels=["step", "phase", "memory", "module"]).rows
    assert rows
    for row in rows:
        if row.interval is None:
            assert not any(are_measured)
            assert (row.verdict == "no difference found") == (abs(math.log(row.ratio)) <= 1e-3)
            continue
        low, high = row.interval
        assert (row.verdict == "no difference found") == (low <= 1.0 <= high)
        printed = [float(end) for end in words.interval(row).split(" to ")]
        if abs(low - 1.0) > 1e-5 and abs(high - 1.0) > 1e-5:
            assert (row.verdict == "no difference found") == (printed[0] <= 1.0 <= printed[1])


@cache
def predicted_once():
    return sl.predict(sl.load(TRAINING))
