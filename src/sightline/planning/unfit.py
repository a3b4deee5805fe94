"""What would fit in place of a predicted plan that does not."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sightline.launching.training.rules import refusals
from sightline.planning.plan_answer import LazySequence, NearestPlan, nearest_to_dict
from sightline.prediction.changes import NO_SINGLE_CHANGE, WouldFit, changed, needs_several
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


def with_launched_advice(profile: Profile) -> Profile:
    """Return a training prediction whose ``advice`` leaves out changes that the framework's launch cannot run."""
    if profile.task is not TRAINING or profile.fits is not False:
        return profile

    def advice(_: Profile) -> Sequence[str]:
        own = {*map(str, refusals(profile.scenario))}
        kept = [
            said
            for said in profile.advice
            if not isinstance(said, WouldFit) or {*map(str, refusals(changed(profile.scenario, said.change)))} <= own
        ]
        return kept if len(kept) > 1 else [*kept, NO_SINGLE_CHANGE]

    return profile.replace(advice=advice)


def _nearest(profile: Profile, command: str, known: "Anchored | None") -> Sequence[NearestPlan]:
    from sightline.planning.rationale.nearest import Unmet, nearest_plans
    from sightline.prediction import predict

    scenario = profile.scenario
    unmet = Unmet(space=opened(scenario, ()), asked=profile)
    return nearest_plans(unmet, partial(predict, anchor=known), command)


def prediction_to_dict(profile: Profile, nearest: Sequence[NearestPlan]) -> dict[str, Any]:
    """Return what ``sightline predict --json --nearest`` prints of one prediction: its tables, and plans that fit."""
    return profile.to_dict(tables=True) | ({"nearest": list(map(nearest_to_dict, nearest))} if nearest else {})
