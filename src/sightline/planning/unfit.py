"""What would fit in place of a predicted plan that does not."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sightline.planning.answer import LazySequence, NearestPlan, nearest_to_dict
from sightline.prediction.changes import needs_several
from sightline.profile import TRAINING, Profile
from sightline.scenario.space import opened

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored


def nearest_to(
    profile: Profile, command: str = "sightline predict FILE", known: "Anchored | None" = None
) -> Sequence[NearestPlan]:
    """Return the nearest plans that fit, worked out when they are read; none where a single change is enough.

    Those single changes are the profile's ``advice``. Only training on devices that are all alike has others.

    Args:
        profile: The prediction of one plan.
        command: What changes are added to as options.
        known: What own runs teach, which the prediction was made with.
    """
    if profile.task is not TRAINING or profile.fits or profile.scenario.cluster.groups:
        return ()
    return LazySequence(lambda: _nearest(profile, command, known) if needs_several(profile) else ())


def _nearest(profile: Profile, command: str, known: "Anchored | None") -> Sequence[NearestPlan]:
    from sightline.planning.rationale.nearest import Unmet, nearest_plans
    from sightline.prediction import predict

    scenario = profile.scenario
    unmet = Unmet(space=opened(scenario, ()), asked=profile)
    return nearest_plans(unmet, partial(predict, anchor=known), command)


def nearest_to_unfit(profile: Profile, command: str, known: "Anchored | None" = None) -> dict[str, Any]:
    """Return the key of the nearest plans that fit, where one that was asked for does not and no single change helps.

    Args:
        profile: What was asked for.
        command: The command that predicts it, which those of the nearest plans extend.
        known: What runs of one's own cluster teach.
    """
    if profile.fits is not False:
        return {}
    found = nearest_to(profile, command, known)
    return {"nearest": [nearest_to_dict(one) for one in found]} if found else {}


def prediction_to_dict(profile: Profile, command: str, known: "Anchored | None" = None) -> dict[str, Any]:
    """Return what ``sightline predict --json`` prints of one prediction: its tables, and plans that fit if it does not.

    The arguments are those of `nearest_to_unfit`.
    """
    return profile.to_dict(tables=True) | nearest_to_unfit(profile, command, known)
