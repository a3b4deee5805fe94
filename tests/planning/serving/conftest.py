"""What tests of plans that serve a load share: the answer to one question."""

import pytest
from planning.serving.questions import PLAN, QUESTION

from sightline.planning.plan_answer import PlanAnswer
from sightline.planning.search import plan


@pytest.fixture(scope="session")
def answer() -> PlanAnswer:
    """The three best plans."""
    return plan(QUESTION, top=3)


@pytest.fixture(scope="session")
def answer_of_large() -> PlanAnswer:
    """The best plan of a model that takes both devices."""
    stated = {**PLAN, "pipeline_parallel": 1, "max_batched_tokens": 2048, "chunked_prefill": True}
    return plan({**QUESTION, "model": "llama-3.1-70b", "plan": stated}, top=1)
