"""Anchors in every form that people have them in: stored runs, files, saved names, profiles; and answers with them."""

from typing import TYPE_CHECKING

from sightline.on_demand import names_on_demand

if TYPE_CHECKING:
    from sightline.anchors.answers import anchored, find_capacity, predict, sensitivity, simulate
    from sightline.anchors.sources import Given, anchors_of, listing, save
else:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "sightline.anchors.answers": "anchored find_capacity predict sensitivity simulate",
            "sightline.anchors.sources": "Given anchors_of listing save",
        },
    )

__all__ = [
    "Given",
    "anchored",
    "anchors_of",
    "find_capacity",
    "listing",
    "predict",
    "save",
    "sensitivity",
    "simulate",
]
