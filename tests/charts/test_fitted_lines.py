"""Lines that were fitted to points of a study."""

import json

from sightline.charts.study_charts import study_chart
from sightline.exploration.study_answer import Figure, StudyAnswer

COLUMNS = {
    "year": [2020, 2021, 2022, 2023],
    "speed": [1.0, 2.1, 3.9, 8.0],
    "line": [1.0, 2.0, 4.0, 8.0],
    "of": list("aabb"),
}


def drawn(**changes):
    figure = Figure(kind="points", title="Speed", x="year", y="speed", log=frozenset("y"), columns=COLUMNS, **changes)
    return json.dumps(study_chart(StudyAnswer(study="own", title="Speed", axes={}, columns={}, figures=(figure,))))


def test_points_have_no_line_unless_one_is_named():
    assert '"line"' not in drawn()


def test_a_line_goes_through_its_heights_in_the_color_of_its_series():
    spec = drawn(line="line", series="of")
    assert '"type": "line"' in spec
    assert '"type": "point"' in spec


def test_points_without_a_series_have_one_line():
    assert '"type": "line"' in drawn(line="line")
