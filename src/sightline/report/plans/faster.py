"""Plans that differ in one decision and are faster, as sentences."""

from collections.abc import Iterable

from sightline.prediction.sensitivity import Neighbour
from sightline.profile import Profile
from sightline.report import units

_LEAST, _MOST = 0.005, 3
"""The least share of the time that is worth a sentence, and how many there are."""


def changes_of(own: Profile, neighbours: Iterable[Neighbour]) -> list[str]:
    """Return the neighbours of a plan that fit and are faster, the fastest first."""
    own_s = float(own.step_time_s)
    saved = ((one, 1.0 - float(one.profile.step_time_s) / own_s) for one in neighbours if one.profile.fits)
    found = [f"{one.change} would take {units.percent(share)} less time" for one, share in saved if share >= _LEAST]
    return found[:_MOST]
