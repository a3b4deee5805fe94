"""What tests of studies' reports share."""

import pytest
import study_answers

ANSWERS = (
    study_answers.nodes,
    study_answers.factors,
    study_answers.tornado,
    study_answers.grid,
    study_answers.trends,
    study_answers.scaling,
)


@pytest.fixture(params=ANSWERS, ids=lambda make: make.__name__)
def answer(request):
    """An answer of each kind of figure."""
    return request.param()
