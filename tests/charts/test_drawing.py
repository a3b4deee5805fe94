"""The declarative figure: what its parts become in a specification, and what a chart says that it rests on."""

import pytest
from drawn_charts import texts

from sightline.charts import drawing
from sightline.charts.figure import Axis, Group, Panel, Series, linear, mark, names, specification, words
from sightline.charts.rendering import data_of

ROWS = [{"row": "a", "part": "x", "end_s": 0.02}, {"row": "b", "part": "y", "end_s": 0.01}]


def panel(**changes):
    x, y = linear("time (milliseconds)", 0, 0.03, 1e-3), names(["a", "b"])
    return Panel(x=x, y=y, marks=[mark("bar", ROWS, x="end_s", y="row")], width=200, height=44, **changes)


def test_columns_are_kept_in_si_units_and_scaled_where_they_are_drawn():
    spec = specification(panel())
    (layer,) = spec["layer"]
    assert data_of(spec) == ROWS
    assert layer["transform"] == [{"calculate": "datum['end_s'] / 0.001", "as": "end_s_drawn"}]
    assert layer["encoding"]["x"]["field"] == "end_s_drawn"
    assert layer["encoding"]["x"]["scale"]["domain"] == [0, 30]


def test_a_column_in_the_unit_of_its_axis_is_drawn_as_it_is():
    (layer,) = specification(Panel(marks=[mark("line", ROWS, x="end_s")]))["layer"]
    assert "transform" not in layer
    assert layer["encoding"]["x"]["field"] == "end_s"


def test_marks_of_the_same_rows_share_their_data():
    spec = specification(
        Panel(y=names(["a", "b"]), marks=[mark("bar", ROWS, y="row"), words(ROWS, y="row", text="part")])
    )
    assert len(spec["datasets"]) == 1
    assert [layer["data"] for layer in spec["layer"]] == [{"name": "data-0"}] * 2


def test_numbers_and_colors_are_constants_and_names_of_columns_encode():
    color = Series(column="part", looks={"x": "#111111", "y": "#222222"})
    drawn = mark("point", ROWS, x="end_s", size=40, color="#333333", stroke=color, strokeDash=[1, 2], shape=None)
    assert drawn.style == {"size": 40, "color": "#333333", "strokeDash": [1, 2]}
    assert set(drawn.encoding) == {"x", "stroke"}


def test_a_series_without_a_legend_has_none():
    assert Series(column="part", looks={"x": "#111111"}).channel()["legend"] is None
    assert Series(column="part", looks={"x": "#111111"}, legend={}).channel()["legend"]["orient"] == "bottom"


def test_panels_stand_in_rows_and_columns():
    assert set(specification(Group(parts=[panel()], columns=0))) >= {"hconcat"}
    assert set(specification(Group(parts=[panel()]))) >= {"vconcat"}
    assert specification(Group(parts=[panel()] * 3, columns=2))["columns"] == 2


@pytest.mark.parametrize(("value", "place"), [(10.0, 0.0), (100.0, 0.5), (1000.0, 1.0)])
def test_a_value_lies_on_a_logarithmic_axis_by_its_logarithm(value, place):
    axis = Axis(divisor=10.0, scale={"type": "log", "domain": [1.0, 100.0]})
    assert axis.place(value) == pytest.approx(place)


def test_a_picture_of_one_panel_keeps_that_panels_heading():
    spec = specification(panel(title="Step time (seconds)"), "Llama-2-7B")
    assert {"Llama-2-7B", "Step time (seconds)"} <= set(texts(spec))


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ({"matmul": "calibrated", "attention": "datasheet"}, "evidence: calibrated (matmul), datasheet (attention)"),
        ("datasheet", "evidence: datasheet"),
        ({}, ""),
        ("", ""),
        (
            [{"matmul": "calibrated"}, {"matmul": "datasheet"}, {"matmul": "calibrated"}],
            "evidence: calibrated (matmul), datasheet (matmul)",
        ),
    ],
)
def test_what_a_chart_rests_on_is_said_of_all_its_answers(evidence, said):
    assert drawing.basis(evidence) == said
