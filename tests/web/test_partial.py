"""What is said of work that was stopped."""

import pytest

from sightline.web.views import piece_of


@pytest.mark.parametrize(
    ("stopped", "said"),
    [
        ({"what": "searching", "done": 1200, "total": 5000}, "stopped while searching, at 1,200 of 5,000."),
        ({"what": "searching", "done": 5000, "total": 5000}, "stopped after searching."),
        ({"what": "reading", "done": 7, "total": None}, "stopped while reading."),
        ({"what": "", "done": 0, "total": None}, "stopped at the start."),
    ],
)
def test_it_begins_with_how_far_it_was(stopped, said):
    shown = piece_of({"piece": {"html": "<p>best</p>", "charts": {}}, "stopped": stopped}).html
    assert said in shown
    assert shown.endswith("<p>best</p>")
