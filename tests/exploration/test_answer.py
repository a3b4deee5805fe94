"""What a study answers: rows as columns."""

import math

from sightline.exploration.study_answer import columns_of


def test_rows_become_columns_of_one_length():
    found = columns_of([{"device": "a100", "loss": 2.0}, {"device": "b200"}, {"loss": 1.9, "note": "late"}])
    assert found["device"] == ["a100", "b200", ""]
    assert found["note"] == ["", "", "late"]
    assert found["loss"][::2] == [2.0, 1.9]
    assert math.isnan(found["loss"][1])


def test_no_rows_have_no_columns():
    assert columns_of([]) == {}
