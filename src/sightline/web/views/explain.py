"""Explain: what limits a scenario, where its time goes, and what would help most."""

from typing import TYPE_CHECKING, Final

from sightline.web.asked import Asked
from sightline.web.fields import TRAINING, groups
from sightline.web.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sightline.report.pieces import Piece

TASKS: Final = (*TRAINING, "generate")


def answer(asked: Asked) -> "Piece":
    """Return the limits, the advice, and the time by phase and module of the one scenario."""
    from sightline.explanation.explain import explain
    from sightline.prediction import predict
    from sightline.report.explained.page import explained_piece

    return explained_piece(explain(predict(asked.scenario())), "explained")


def context(_: Asked) -> "Mapping[str, Any]":
    """Return the fields of the form."""
    return {"groups": groups(TASKS)}


VIEW: Final = View(
    name="explain",
    title="Explain",
    about="What limits a scenario, where its time goes, and the changes that would help most.",
    answer=answer,
    context=context,
    shares_scenario=True,
    tasks=TASKS,
)
