"""What tests of plans that serve a load share: the answer to one question."""

import pytest
from planning.serving.questions import QUESTION

from sightline.planning.plan_answer import PlanAnswer
from sightline.planning.search import plan


@pytest.fixture(scope="session")
def answer() -> PlanAnswer:
    """The three best plans."""
    return plan(QUESTION, top=3)
