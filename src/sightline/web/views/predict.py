"""Predict: whether it fits, how fast it is, what binds it, what it costs, and what would be better."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sightline.web.asked import Asked
from sightline.web.fields import TRAINING, groups
from sightline.web.views import View

if TYPE_CHECKING:
    from sightline.profile import Profile
    from sightline.report.pieces import Piece

TASKS: Final = (*TRAINING, "generate")


def answer(asked: Asked) -> "Piece":
    """Return everything about the prediction."""
    from sightline.report.pages.profile import profile_piece

    return profile_piece(_profile(asked), "predict", narrow=not asked.is_wide)


def _profile(asked: Asked) -> "Profile":
    from sightline.prediction import predict

    return predict(asked.scenario())


def context(_: Asked) -> Mapping[str, Any]:
    """Return the fields of the form."""
    return {"groups": groups(TASKS)}


VIEW: Final = View(
    name="predict",
    title="Predict",
    about="Describe a model, a cluster and a plan: the answer follows every change.",
    answer=answer,
    context=context,
    shares_scenario=True,
)
