"""How a study is asked for."""

import pytest

from sightline.exploration.base import StudyRequest


@pytest.mark.parametrize(
    ("asked", "default", "views"),
    [
        (None, "both", ("ideal", "calibrated")),
        (None, "ideal", ("ideal",)),
        ("calibrated", "both", ("calibrated",)),
        ("both", "ideal", ("ideal", "calibrated")),
    ],
)
def test_views_that_are_asked_for(asked, default, views):
    assert StudyRequest(view=asked).views(default) == views
