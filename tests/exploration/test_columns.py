"""Labels and units of results."""

import pytest

from sightline.exploration.own.reports import known_keys
from sightline.exploration.study_answer import result_columns
from sightline.profile import GENERATION, SERVING, TRAINING


@pytest.mark.parametrize("task", [TRAINING, GENERATION, SERVING], ids=lambda task: task.name)
def test_every_result_that_a_study_may_report_has_a_label_and_a_unit(task):
    columns = result_columns(task)
    for key in known_keys(task):
        assert columns[key].label
        assert "_" not in columns[key].label
        if key.partition(".")[0].endswith("_s") or key.startswith(("levels.", "limits.", "phases.")):
            assert columns[key].unit.startswith("s") or columns[key].unit.endswith("/s"), key
        if key.startswith("memory_bytes"):
            assert columns[key].unit == "B"
