"""Every kind of chart: that answers have them, and that they can be read on any screen, in print and by everybody."""

import csv
import io
import json
from functools import cache
from itertools import combinations, pairwise

import numpy as np
import pytest
import vl_convert
from chart_answers import ANSWERS
from drawn_charts import SEEN_BY, as_drawn, boxes, contrast, drawn, lab

from sightline.charts import drawing, index, rendering
from sightline.charts import rendering as numbers
from sightline.render.csv import csv_of

WIDTH_OF_A_PHONE = 400
MOST_BYTES = 400_000
DARK = "#16191d"
DRAWN = {
    "step": ("time", "memory", "roofline", "pipeline"),
    "generation": ("time", "memory", "roofline"),
    "batches": ("throughput-latency", "time", "memory"),
    "devices": ("scaling", "heat-map", "time", "memory"),
    "sweep": ("heat-map", "time", "memory"),
    "load": ("time", "memory", "latency", "over-time"),
    "rates": ("throughput-latency", "time", "memory"),
    "replay": ("latency", "replay"),
    "sensitivity": ("tornado",),
    "comparison": ("comparison",),
    "validation": ("parity",),
    "matmuls": ("matmuls",),
    "plans": ("plans", "pareto"),
    "study": ("study",),
}
EACH = [(answer, name) for answer, names in DRAWN.items() for name in names]
ONCE = list({name: (answer, name) for answer, name in reversed(EACH)}.values())
"""One answer for each kind of chart."""
BY_FAR_MOST_TEXTS = ("comparison", "replay", "study")
READ = [
    pytest.param(*one, room, marks=[pytest.mark.slow] if one[1] in BY_FAR_MOST_TEXTS else [])
    for one in ONCE
    for room in ("screen", "phone")
]
SEEN = [pytest.param(*one, marks=[pytest.mark.slow] if one[1] in BY_FAR_MOST_TEXTS else []) for one in ONCE]
ROOMS = {"screen": drawing.SCREEN, "phone": drawing.PHONE}


@cache
def charts(answer):
    return index.charts_of(ANSWERS[answer]())


def spec_of(answer, name, room="screen"):
    (found,) = [chart for chart in charts(answer) if chart.name == name]
    return found.wide if room == "screen" else found.phone


@cache
def picture(answer, name, room="screen"):
    return drawn(spec_of(answer, name, room))


def walk(spec):
    """Every mapping in a specification."""
    if isinstance(spec, dict):
        yield spec
        for inner in spec.values():
            yield from walk(inner)
    elif isinstance(spec, list):
        for inner in spec:
            yield from walk(inner)


@pytest.mark.parametrize("answer", DRAWN)
def test_every_answer_has_its_charts(answer):
    assert tuple(chart.name for chart in charts(answer)) == DRAWN[answer]
    for chart in charts(answer):
        assert chart.table
        assert chart.title
        assert len(json.dumps(chart.wide)) < MOST_BYTES
        assert len(json.dumps(chart.phone)) < MOST_BYTES


def test_every_kind_is_drawn_here():
    assert {name for _, name in EACH} | {"explanation"} >= set(index.KINDS)


@pytest.mark.parametrize("nothing", [None, "text", [], {}, [1, 2]])
def test_other_things_have_no_charts(nothing):
    assert index.charts_of(nothing) == []


@pytest.mark.parametrize("room", ROOMS)
def test_one_chart_is_drawn_by_its_name(room):
    assert index.chart_of("time", ANSWERS["step"](), ROOMS[room]) == spec_of("step", "time", room)
    assert index.chart_of("study", ANSWERS["step"](), ROOMS[room]) is None


def test_a_kind_that_is_not_there_is_an_error():
    with pytest.raises(KeyError):
        index.chart_of("pie", ANSWERS["step"]())


@pytest.mark.parametrize(("answer", "name", "room"), READ)
def test_texts_neither_overlap_nor_leave_the_picture(answer, name, room):
    root = picture(answer, name, room)
    wide, high = map(float, root.get("viewBox").split()[2:])
    found = boxes(root)
    assert not [(one.text, other.text) for one, other in combinations(found, 2) if one.overlaps(other)]
    outside = [
        box.text for box in found if box.left < -1 or box.top < -1 or box.right > wide + 1 or box.bottom > high + 1
    ]
    assert not outside
    if room == "phone":
        assert wide <= WIDTH_OF_A_PHONE


@pytest.mark.parametrize(("answer", "name", "room"), READ)
def test_axes_of_numbers_have_enough_ticks(answer, name, room):
    least = 4 if room == "screen" else 3
    for group in picture(answer, name, room).iter("{http://www.w3.org/2000/svg}g"):
        about = group.get("aria-label", "")
        if group.get("aria-roledescription") == "axis" and (
            " for a linear scale" in about or " for a log scale" in about
        ):
            labels = [g for g in group.iter() if "role-axis-label" in g.get("class", "")]
            ticks = [text for g in labels for text in g if text.tag.endswith("text") and text.get("opacity") != "0"]
            assert len(ticks) >= least or not ticks, about


@pytest.mark.parametrize(("answer", "name"), SEEN)
def test_texts_stand_out_on_light_and_on_dark_screens(answer, name):
    in_the_dark = rendering.IN_THE_DARK
    on_marks = ("#fefefe", "#111111")
    for text in picture(answer, name).iter("{http://www.w3.org/2000/svg}text"):
        color = text.get("fill")
        if color not in on_marks:
            said = "".join(text.itertext())
            assert contrast(color, "#ffffff") >= 4.5, (said, color)
            assert contrast(in_the_dark.get(color, color), DARK) >= 4.5, (said, color)


@pytest.mark.parametrize(("answer", "name"), ONCE)
def test_colors_of_a_legend_are_told_apart_by_everybody_and_in_grey(answer, name):
    for part in walk(spec_of(answer, name)):
        color = part.get("encoding", {}).get("color", {})
        scale = color.get("scale") or {}
        colors = [one for one in scale.get("range", ()) if isinstance(one, str)]
        other_channel = {"shape", "strokeDash"} & set(part.get("encoding", {}))
        for one, other in pairwise(colors):
            for sight, matrix in SEEN_BY.items():
                assert np.linalg.norm(lab(one, matrix) - lab(other, matrix)) > 9, (one, other, sight)
            grey = abs(lab(one, np.eye(3))[0] - lab(other, np.eye(3))[0])
            assert grey > 4 or other_channel, (one, other)


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize(
    ("answer", "name"), [one for one in ONCE if one[1] not in ("comparison", "study", "over-time")]
)
def test_axes_of_numbers_have_titles(answer, name, room):
    spec = spec_of(answer, name, room)
    titled = {json.dumps(part.get("title")) for part in walk(spec) if part.get("title")}
    assert titled
    for part in walk(spec):
        for side in ("x", "y"):
            channel = part.get("encoding", {}).get(side, {})
            if channel.get("type") == "quantitative" and channel.get("axis") and channel.get("title") is None:
                assert part.get("title") or any("(" in title for title in titled)


@pytest.mark.parametrize(
    ("answer", "name"),
    [one for one in ONCE if one[1] not in ("comparison", "study", "replay", "matmuls", "parity", "plans")],
)
def test_predictions_say_what_they_rest_on(answer, name):
    said = spec_of(answer, name)["title"]["subtitle"]
    assert "evidence: " in " ".join(said)


def test_numbers_are_csv_too():
    rows = list(csv.DictReader(io.StringIO(csv_of(spec_of("devices", "scaling")))))
    assert {row["devices"] for row in rows} == {"8", "16", "32", "64"}
    assert all(float(row["tokens_per_s"]) > 0 for row in rows if row.get("tokens_per_s"))


def test_roofline_keeps_operators_below_what_the_device_can():
    profile, rows = ANSWERS["step"](), numbers.data_of(spec_of("step", "roofline"))
    peak = max(profile.scenario.cluster.device.peak_flops.values())
    points = [row for row in rows if "operator" in row]
    assert points
    assert all(row["flop_per_s"] <= peak for row in points)
    assert sum(row["share"] for row in points) == pytest.approx(1.0, abs=0.05)


def test_the_schedule_ends_with_the_step_and_names_its_stages():
    rows = [row for row in numbers.data_of(spec_of("step", "pipeline")) if "stage" in row]
    assert {row["stage"] for row in rows} == {f"stage {n}" for n in range(4)}
    assert {"forward", "backward"} <= {row["kind"] for row in rows}
    forwards = [row for row in rows if row["stage"] == "stage 0" and row["kind"] == "forward"]
    assert len(forwards) == int(ANSWERS["step"]().micro_batches)


@pytest.mark.parametrize(("name", "heading"), [("time", "Step time (seconds)"), ("memory", "(GiB)")])
def test_charts_of_several_say_the_unit_of_their_bars(name, heading):
    said = ["".join(text.itertext()) for text in picture("sweep", name).iter("{http://www.w3.org/2000/svg}text")]
    assert any(heading in one for one in said)


@pytest.mark.parametrize(("answer", "name"), EACH)
def test_an_interval_is_said_to_be_a_line_only_where_one_is_drawn(answer, name):
    spec = spec_of(answer, name)
    if "80 % interval: thin line" in " ".join(spec["title"]["subtitle"]):
        assert any(low < high for low, high in _spans(spec, spec["datasets"]))


def _spans(part, datasets, data=None):
    """Both ends of each thin line of a part of a specification; layers have the data of what holds them."""
    encoding, data = part.get("encoding", {}), part.get("data", data)
    if (part.get("mark") or {}).get("type") == "rule":
        for side in ("x", "y"):
            fields = [encoding.get(channel, {}).get("field") for channel in (side, f"{side}2")]
            for row in as_drawn(datasets[data["name"]], part) if all(fields) else ():
                yield tuple(row[field] for field in fields)
    for inner in (one for key in ("layer", "vconcat", "hconcat") for one in part.get(key, ())):
        yield from _spans(inner, datasets, data)


def test_the_memory_that_an_engine_may_fill_is_not_called_the_devices():
    said = ["".join(text.itertext()) for text in picture("load", "memory").iter("{http://www.w3.org/2000/svg}text")]
    assert any(one.endswith("engine limit") for one in said)


@pytest.mark.parametrize("answer", DRAWN)
def test_vega_lite_warns_of_nothing(answer, capfd):
    # The page writes such a warning to the console of the browser.
    for _, name in (one for one in EACH if one[0] == answer):
        vl_convert.vegalite_to_vega(spec_of(answer, name), vl_version=drawing.VEGA_LITE, show_warnings=True)
    assert "WARN" not in "".join(capfd.readouterr())
