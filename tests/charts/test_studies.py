"""Pictures of studies: what is drawn, in which unit, order and color."""

import itertools
import json
from dataclasses import replace

import altair as alt
import jsonschema
import numpy as np
import pytest
import study_answers
from drawn_charts import SEEN_BY, as_drawn, drawn, lab, texts
from hypothesis import given
from hypothesis import strategies as st

from sightline.charts import drawing
from sightline.charts.drawing import DARK_TEXT, LEVEL_COLORS, LIGHT_TEXT
from sightline.charts.study_charts import study_chart
from sightline.charts.study_table import colors_of, part_of
from sightline.exploration.study_answer import Column, Figure, StudyAnswer
from sightline.render.csv import csv_of

ANSWERS = {
    one.__name__: one
    for one in (
        study_answers.nodes,
        study_answers.factors,
        study_answers.tornado,
        study_answers.grid,
        study_answers.trends,
        study_answers.scaling,
    )
}


def only(answer, position=0, **changes):
    """The answer with one of its figures."""
    return replace(answer, figures=(replace(answer.figures[position], **changes),))


def walk(spec):
    """Every mapping in a specification."""
    if isinstance(spec, dict):
        yield spec
        for value in spec.values():
            yield from walk(value)
    elif isinstance(spec, list | tuple):
        for value in spec:
            yield from walk(value)


def marks(spec, kind):
    """The views with a kind of mark."""
    return [one for one in walk(spec) if isinstance(one.get("mark"), dict) and one["mark"]["type"] == kind]


def values(spec, kind):
    """The values of each view with a kind of mark."""
    return list(_values(spec, kind, spec["datasets"], None))


def _values(spec, kind, named, data):
    # Views of a layer may share their values.
    data = spec.get("data", data)
    if isinstance(spec.get("mark"), dict) and spec["mark"]["type"] == kind:
        yield from as_drawn(named[data["name"]], spec)
    for key in ("layer", "concat", "hconcat", "vconcat"):
        for part in spec.get(key, ()):
            yield from _values(part, kind, named, data)


def colors(spec, field="part"):
    """Which color each name has."""
    return {
        name: color
        for one in walk(spec)
        if one.get("field") == field and isinstance(one.get("scale"), dict) and "range" in one["scale"]
        for name, color in zip(one["scale"]["domain"], one["scale"]["range"], strict=True)
    }


def titles(spec):
    return {one["title"] for one in walk(spec) if isinstance(one.get("title"), str)}


@pytest.mark.parametrize("sight", SEEN_BY)
def test_levels_can_be_told_apart_by_everybody(sight):
    for one, other in itertools.combinations(LEVEL_COLORS.values(), 2):
        assert np.linalg.norm(lab(one, SEEN_BY[sight]) - lab(other, SEEN_BY[sight])) > 15, (one, other)


def test_levels_can_be_told_apart_in_grey():
    for one, other in itertools.combinations(LEVEL_COLORS.values(), 2):
        assert abs(lab(one, np.eye(3))[0] - lab(other, np.eye(3))[0]) > 8, (one, other)


@pytest.fixture(scope="module")
def vega_lite():
    """What tells every fault of a specification."""
    return jsonschema.Draft7Validator(alt.load_schema())


@pytest.mark.parametrize("make", ANSWERS.values(), ids=ANSWERS)
def test_specifications_are_valid(make, vega_lite):
    spec = json.loads(json.dumps(study_chart(make())))
    assert [fault.message for fault in vega_lite.iter_errors(spec)] == []
    assert list(vega_lite.iter_errors({**spec, "vconcat": "no panels"}))


@pytest.mark.parametrize("make", ANSWERS.values(), ids=ANSWERS)
def test_every_answer_fits_a_phone(make):
    assert float(drawn(study_chart(make(), drawing.PHONE)).get("width")) <= 400


@pytest.mark.parametrize("make", [study_answers.nodes, study_answers.trends])
def test_answers_fit_a_page(make):
    assert float(drawn(study_chart(make())).get("width")) <= 840


@pytest.mark.parametrize("make", ANSWERS.values(), ids=ANSWERS)
def test_every_text_has_a_color_for_dark_screens_or_lies_on_a_cell(make):
    fills = {one.get("fill") for one in drawn(study_chart(make())).iter() if one.text}
    assert fills - {None} <= {drawing.INK, drawing.FAINT, LIGHT_TEXT, DARK_TEXT}


def test_levels_have_the_same_color_in_stacks_and_in_a_map():
    answer = study_answers.nodes()
    stacked, mapped = colors(study_chart(only(answer, 1))), colors(study_chart(only(answer, 2)), "shade")
    assert stacked == dict(zip(("compute", "DRAM", "L2", "network", "host"), LEVEL_COLORS.values(), strict=True))
    assert mapped == {name: stacked[name] for name in ("compute", "DRAM", "network")}


def test_stacks_begin_where_the_part_before_ended():
    spec = study_chart(only(study_answers.nodes(), 1))
    first = values(spec, "bar")[:5]
    assert [bar["part"] for bar in first] == ["compute", "DRAM", "L2", "network", "host"]
    assert [bar["value_s.start"] for bar in first] == pytest.approx([0, 20, 26, 26.5, 29])
    assert first[-1]["value_s"] == pytest.approx(29.1)
    assert "time (seconds)" in titles(spec)


def test_each_value_of_the_panel_has_its_own_plot():
    assert {"HBM2", "HBM2E", "HBM3", "HBM4"} <= {*texts(study_chart(only(study_answers.nodes(), 1)))}


def test_stacks_of_shares_end_at_the_whole():
    columns = {"device": ["a", "b"], "compute_share": [0.25, 0.5], "network_share": [0.75, 0.5]}
    figure = Figure(kind="stacks", title="Shares", x="device", y=("network_share", "compute_share"))
    about = {f"{name}_share": Column(label=name, unit="share") for name in ("compute", "network")}
    spec = study_chart(StudyAnswer(study="own", title="", axes={}, about=about, columns=columns, figures=(figure,)))
    assert [bar["part"] for bar in values(spec, "bar")] == ["compute", "network"] * 2
    assert [bar["value_share_drawn"] for bar in values(spec, "bar")] == pytest.approx([25, 100, 50, 100])
    assert "share (%)" in titles(spec)


def test_lines_are_in_the_unit_of_their_axis():
    spec = study_chart(only(study_answers.scaling(), 1))
    assert max(value["mfu_drawn"] for value in values(spec, "line")) == pytest.approx(50, rel=0.01)
    assert {"MFU (%)", "devices"} <= titles(spec)


def test_lines_have_a_color_for_each_series():
    spec = study_chart(only(study_answers.nodes()))
    assert list(colors(spec, "series")) == ["HBM2", "HBM2E", "HBM3", "HBM4"]
    assert len({*colors(spec, "series").values()}) == 4


def test_names_of_an_axis_stay_in_their_order():
    spec = study_chart(only(study_answers.nodes()))
    shown = [text for text in texts(spec) if text in study_answers.NODES]
    assert shown == list(study_answers.NODES)


def test_an_axis_with_a_zero_is_not_logarithmic():
    columns = {"devices": [1, 2, 4], "tokens_per_s": [0.0, 5.0, 7.0]}
    figure = Figure(kind="lines", title="T", x="devices", y="tokens_per_s", log=frozenset("xy"))
    spec = study_chart(StudyAnswer(study="own", title="", axes={}, columns=columns, figures=(figure,)))
    kinds = [one["scale"].get("type") for one in walk(spec) if one.get("field") == "tokens_per_s" and "scale" in one]
    assert kinds
    assert "log" not in kinds


def test_figures_of_gain_have_a_line_at_break_even():
    columns = {"price_usd": [1, 2, 3], "gain": [2.0, 1.1, 0.7]}
    figure = Figure(kind="lines", title="G", x="price_usd", y="gain", break_even=1.0)
    answer = StudyAnswer(study="own", title="", axes={}, columns=columns, figures=(figure,))
    assert "break-even" in texts(study_chart(answer))
    above = replace(answer, columns={**columns, "gain": [2.0, 1.1, 1.05]})
    assert "break-even" not in texts(study_chart(above))


def test_a_map_says_its_figures_and_draws_break_even():
    spec = study_chart(only(study_answers.grid(3), 1))
    assert len(values(spec, "rect")) == 9
    assert any("gain is 1" in one for one in texts(spec))
    assert {"peak (PFLOP/s)", "memory bandwidth (TB/s)", "gain"} <= titles(spec)
    assert marks(spec, "rule")


def test_numbers_of_a_map_grow_upward():
    spec = study_chart(only(study_answers.grid(3)))
    scale = next(one["scale"] for one in walk(spec) if one.get("field") == "at_y" and "scale" in one)
    assert scale["domain"] == ["8", "1.26", "0.2"]


def test_a_map_may_name_its_color_behind_its_row():
    answer = study_answers.grid(3)
    figure = answer.figures[2]
    paired = only(answer, 2, y=(figure.y, figure.series), series="")
    assert [cell["text"] for cell in values(study_chart(paired), "rect")] == [
        cell["text"] for cell in values(study_chart(only(answer, 2)), "rect")
    ]


def test_a_map_of_very_many_cells_draws_evenly_chosen_ones():
    assert 400 <= len(values(study_chart(only(study_answers.grid(100))), "rect")) <= 2500


@pytest.mark.parametrize("view", ["ideal", "calibrated"])
def test_factors_multiply_to_the_last_bar(view):
    answer = study_answers.factors()
    spec = study_chart(only(answer, where={"view": view}))
    bars = values(spec, "bar")
    there = [gain for gain, one in zip(answer.columns["gain"], answer.columns["view"], strict=True) if one == view]
    for before, after in itertools.pairwise(bars[:-1]):
        assert after["start"] == before["end"]
    assert bars[-1]["end"] == pytest.approx(np.prod(there))
    assert [bar["name"].replace("\n", " ") for bar in bars[:-1]] == list(answer.columns["factor"])[: len(there)]
    assert bars[-2]["color"] != bars[0]["color"]


def test_rows_of_factors_stand_in_the_order_of_the_product():
    shown = texts(study_chart(only(study_answers.factors(), where={"view": "ideal"})))
    order = [text for text in shown if text in ("precision", "interconnect", "overlap", "all combined")]
    assert order == ["precision", "interconnect", "overlap", "all combined"]


def test_the_longest_bar_of_a_tornado_comes_first():
    spec = study_chart(only(study_answers.tornado()))
    assert [bar["elasticity"] for bar in values(spec, "bar")] == [-0.42, -0.35, -0.21, 0.02, 0.004]
    assert "memory bandwidth" in texts(spec)


def test_points_have_their_names():
    spec = study_chart(only(study_answers.trends()))
    assert 2017.33 in [value.get("year") for value in values(spec, "point")]
    assert {"GTX 680", "A100", "2020", "GFLOP/s per USD"} <= {*texts(spec)}


def test_of_very_many_points_those_above_all_before_have_names():
    columns = {"card": [f"card {i}" for i in range(60)], "year": [2000 + i / 3 for i in range(60)]}
    columns["speed"] = [1000.0 if i == 20 else 10.0 + i % 7 for i in range(60)]
    figure = Figure(kind="points", title="S", x="year", y="speed", log=frozenset("y"))
    shown = texts(study_chart(StudyAnswer(study="own", title="", axes={}, columns=columns, figures=(figure,))))
    assert "card 20" in shown
    assert "card 30" not in shown


def test_bars_of_several_series_stand_next_to_each_other():
    columns = {"device": ["a", "a", "b", "b"], "view": ["ideal", "calibrated"] * 2, "step_time_s": [1.0, 2.0, 3.0, 4.0]}
    figure = Figure(kind="bars", title="T", x="device", y="step_time_s", series="view")
    about = {"step_time_s": Column(label="step time", unit="s")}
    spec = study_chart(StudyAnswer(study="own", title="", axes={}, about=about, columns=columns, figures=(figure,)))
    assert [(bar["name"], bar["part"], bar["text"]) for bar in values(spec, "bar")] == [
        ("a", "ideal", "1.00 s"),
        ("a", "calibrated", "2.00 s"),
        ("b", "ideal", "3.00 s"),
        ("b", "calibrated", "4.00 s"),
    ]
    assert "step time (seconds)" in titles(spec)


def test_a_row_without_a_value_has_a_word_in_place_of_its_bar():
    columns = {"device": ["a", "a", "b", "b"], "way": ["x", "y"] * 2, "tokens_per_s": [1.0, None, 3.0, np.nan]}
    figure = Figure(kind="bars", title="T", x="device", y="tokens_per_s", series="way", missing="out of memory")
    answer = StudyAnswer(study="own", title="", axes={}, columns=columns, figures=(figure,))
    spec = study_chart(answer)
    assert [(bar["name"], bar["part"]) for bar in values(spec, "bar")] == [("a", "x"), ("b", "x")]
    said = [(one["name"], one["group"]) for one in values(spec, "text") if one["text"] == "out of memory"]
    assert said == [("a", "y"), ("b", "y")]
    assert "out of memory" not in texts(study_chart(only(answer, missing="")))
    assert len(csv_of(spec).splitlines()) == 3


def test_columns_of_which_one_is_missing_say_so_as_rows():
    columns = {"device": ["a", "b", "c", "d"], "tokens_per_s": [1.0, None, 3.0, 4.0]}
    figure = Figure(kind="bars", title="T", x="device", y="tokens_per_s", missing="out of memory")
    spec = study_chart(StudyAnswer(study="own", title="", axes={}, columns=columns, figures=(figure,)))
    assert [one["name"] for one in values(spec, "text") if one["text"] == "out of memory"] == ["b"]


@pytest.mark.parametrize(
    ("sizes", "title"),
    [((2**12, 2**18, 2**30), "size"), ((2**20, 2**22), "size (MiB)"), ((2**20, 2e3 * 2**20), "size (GiB)")],
)
def test_sizes_far_apart_have_a_unit_at_each_tick_and_others_in_the_title(sizes, title):
    columns = {"bytes": [*map(float, sizes)], "time_s": [1.0] * len(sizes)}
    figure = Figure(kind="lines", title="T", x="bytes", y="time_s", log=frozenset("x"))
    about = {"bytes": Column(label="size", unit="B")}
    spec = study_chart(StudyAnswer(study="own", title="", axes={}, about=about, columns=columns, figures=(figure,)))
    (across,) = {json.dumps(one["x"]): one["x"] for one in walk(spec) if "x" in one and "axis" in one["x"]}.values()
    assert across["title"] == title
    assert ("MiB" in across["axis"].get("labelExpr", "")) == (title == "size")
    low, high = across["scale"]["domain"]
    assert all(low <= tick <= high for tick in across["axis"]["values"])


def test_a_figure_may_have_a_table_of_its_own():
    figure = Figure(
        kind="bars", title="T", x="part", y="tdp_w", columns={"part": ["die", "stack"], "tdp_w": [300, 100]}
    )
    about = {"tdp_w": Column(label="power", unit="W")}
    answer = StudyAnswer(study="own", title="", axes={}, about=about, columns={"x": [1]}, figures=(figure,))
    spec = study_chart(answer)
    assert [bar["text"] for bar in values(spec, "bar")] == ["300 W", "100 W"]


def test_figures_without_rows_are_left_out():
    answer = study_answers.nodes()
    empty = replace(answer.figures[0], title="Nothing", where={"memory": "HBM9"})
    assert "Nothing" not in texts(study_chart(replace(answer, figures=(*answer.figures, empty))))
    assert "no data" in texts(study_chart(replace(answer, figures=(empty,))))


@pytest.mark.parametrize(
    ("column", "part"),
    [
        ("compute_s", "compute"),
        ("share_dram", "dram"),
        ("l2_time_s", "l2"),
        ("memory_bytes.weights", "weights"),
        ("kv_cache_bytes", "kv_cache"),
        ("communication_exposed", "communication_exposed"),
    ],
)
def test_columns_tell_which_part_they_hold(column, part):
    assert part_of(column) == part


@given(st.lists(st.sampled_from(list(LEVEL_COLORS)), min_size=1, max_size=5, unique=True))
def test_levels_keep_their_colors_whichever_others_are_there(levels):
    assert colors_of(levels) == [LEVEL_COLORS[level] for level in levels]
