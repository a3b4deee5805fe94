"""How close plans of published trainings come to the best that a search finds in the fields they then had."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sightline as sl
from sightline.catalog.yaml12 import parse

CASES = Path(__file__).parents[1] / "tests" / "planning" / "published_plans.yaml"


def cases() -> Sequence[Mapping[str, Any]]:
    """Return every published plan, also those that by our memory do not fit (``needs``)."""
    found: Sequence[Mapping[str, Any]] = parse(CASES.read_text("utf-8"))
    return found


def searched() -> Sequence[Mapping[str, Any]]:
    """Return the published plans that are held against a search."""
    return [case for case in cases() if "needs" not in case]


def within(case: Mapping[str, Any]) -> dict[str, float]:
    """Return how many times as long as the best plan's a published plan's step takes.

    ``of_all`` is against the best of all plans, ``of_its_recomputation`` against the best that recomputes alike.
    """
    question, published = case["question"], case["published"]
    theirs = _fastest_s(question, published)
    alike = _fastest_s(question, {"recompute": published["recompute"]})
    return {"of_all": theirs / _fastest_s(question, {}), "of_its_recomputation": theirs / alike}


def _fastest_s(question: Mapping[str, Any], fields: Mapping[str, Any]) -> float:
    """The step time of the fastest plan with some of the fields as they are given."""
    overrides = {f"plan.{key}": value for key, value in fields.items()}
    answer = sl.plan(question, top=2, overrides=overrides)
    # A plan that surely fits goes before a faster one that may not, if the two cannot be told apart.
    return min(float(one.profile.step_time_s) for one in answer.plans)
