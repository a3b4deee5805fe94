"""Pictures of a search of plans: fronts, scaling, limits, stacks."""

import itertools
import json
from dataclasses import replace

import altair as alt
import numpy as np
import plan_answers
import pytest
from drawn_charts import SEEN_BY, contrast, drawn, lab, texts
from hypothesis import given
from hypothesis import strategies as st

from sightline.charts import drawing, rendering, stacks
from sightline.charts.curves import Scale, rows_of
from sightline.charts.figure import axis, decade_ticks, quantity
from sightline.charts.plan_chart import Point, box_of, interval_of, overlap, placed, plan_chart
from sightline.profile import TRAINING
from sightline.render.document import chart_page

TRAINED = TRAINING.phases
GENERATED = ("prefill", "decode", "communication", "transfer", "host")


@pytest.mark.parametrize("sight", SEEN_BY)
@pytest.mark.parametrize(
    "colors",
    [
        {key: drawing.PHASE_COLORS[key] for key in TRAINED},
        {key: drawing.PHASE_COLORS[key] for key in GENERATED},
        drawing.MEMORY_COLORS,
        drawing.LEVEL_COLORS,
    ],
)
def test_colors_next_to_each_other_can_be_told_apart_by_everybody(colors, sight):
    for one, other in itertools.combinations(colors, 2):
        apart = np.linalg.norm(lab(colors[one], SEEN_BY[sight]) - lab(colors[other], SEEN_BY[sight]))
        assert apart > 15, (one, other)


FAMILIES = (drawing.PHASE_COLORS, drawing.LIMIT_COLORS, drawing.MEMORY_COLORS, dict.fromkeys(drawing.LINES))


@pytest.mark.parametrize("color", sorted({color or key for family in FAMILIES for key, color in family.items()}))
def test_every_color_of_a_mark_stands_out_on_light_and_dark_grounds(color):
    assert contrast(color, "#ffffff") >= 3
    assert contrast(drawing.IN_THE_DARK.get(color, color), drawing.IN_THE_DARK["white"]) >= 3


def test_a_color_means_a_phase_or_a_limit_or_a_part_of_memory_or_a_side():
    phases, limits, memory = ({*family.values()} for family in FAMILIES[:3])
    assert phases & limits <= {drawing.NETWORK, drawing.WAITING, drawing.HOST, drawing.PHASE_COLORS["decode_queue"]}
    assert not memory & (phases | limits | {*drawing.LINES})
    assert not {*drawing.LINES} & (phases | limits)


@pytest.mark.parametrize("answer", [plan_answers.trained, plan_answers.generating, plan_answers.empty])
def test_every_answer_is_drawn_and_fits_a_phone(answer):
    spec = plan_chart(answer(), room=drawing.PHONE)
    assert float(drawn(spec).get("width")) <= 400


@pytest.mark.parametrize("answer", [plan_answers.trained, plan_answers.generating])
@pytest.mark.parametrize("room", [drawing.SCREEN, drawing.PHONE])
def test_specifications_are_valid(answer, room):
    spec = plan_chart(answer(limits={"run_time_s": 6e5, "latency_s": 1.5}), room)
    alt.Chart.from_dict(json.loads(json.dumps(spec)), validate=True)


def test_a_chart_says_what_it_rests_on():
    said = " ".join(texts(plan_chart(plan_answers.trained())))
    for words in ("evaluated 1,204,331 plans", "80 % intervals", "calibrated", "are tied", "(seconds)"):
        assert words in said


def test_a_front_marks_the_chosen_plan_and_what_is_asked_for():
    said = texts(plan_chart(plan_answers.generating(limits={"tpot_s": 0.005})))
    assert {"chosen", "on the Pareto front", "other plans"} <= set(said)
    assert any(one.startswith("shaded: ") and "5.00 ms" in one for one in said)
    assert "TPOT (milliseconds), less is better" in said
    assert "tokens/s per device, more is better" in said


def test_plans_behind_a_front_are_drawn_if_they_are_near():
    answer = replace(plan_answers.generating(), sampled=[(1.0, 1.01), (1e9, 1.0)])
    rows = [row for data in plan_chart(answer)["datasets"].values() for row in data]
    assert len(rows) == 1 + sum(len(data) for data in plan_chart(plan_answers.generating())["datasets"].values())


def test_a_limit_that_no_axis_shows_has_bars():
    said = texts(plan_chart(plan_answers.trained(limits={"run_time_s": 7.0 * 86400})))
    assert "Run time (days)" in said
    assert "at most 7.00 days" in said


def test_the_interval_of_a_run_is_as_wide_as_that_of_its_steps():
    (first, *_) = plan_answers.trained().plans
    low, high = interval_of(first, "run_time_s")
    ends = first.profile.interval["step_time_s"]
    assert (low / first.profile.run_time_s, high / first.profile.run_time_s) == pytest.approx(
        tuple(end / first.profile.step_time_s for end in ends)
    )
    assert interval_of(first, "usd_per_hour") is None


def test_the_interval_of_a_rate_is_that_of_its_time_turned_round():
    (first, *_) = plan_answers.generating().plans
    low, high = first.profile.interval["tpot_s"]
    assert interval_of(first, "output_tokens_per_s_per_user") == pytest.approx((1 / high, 1 / low))
    assert interval_of(first, "tpot_s") == pytest.approx((low, high))


def test_overlapped_communication_ends_where_the_exposed_begins():
    profile = plan_answers.predicted(1)
    strip = stacks.overlapped(profile, "row")
    before = sum(profile.phases[key] for key in ("forward", "backward", "recompute", "optimizer"))
    hidden = sum(r.time_s - r.exposed_s for r in profile.rows if r.phase == "communication_exposed")
    assert hidden > 0
    assert strip["end_s"] == pytest.approx(before)
    assert strip["end_s"] - strip["start_s"] == pytest.approx(hidden)


NUMBERS = st.floats(0.01, 1e6)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.text("0123456789", min_size=1, max_size=12)), min_size=1, max_size=30))
def test_labels_of_a_front_overlap_neither_each_other_nor_a_point(drawn_points):
    points = [Point(x=x, y=y, label=label) for x, y, label in drawn_points]
    x, y = (axis(quantity("step_time_s"), [getattr(p, name) for p in points]) for name in "xy")
    wide = 400.0
    boxes = [
        box_of(p.label, x.place(p.x) * wide, (1 - y.place(p.y)) * 280, right, down)
        for p, (right, down, *_) in placed(points, x, y, wide)
    ]
    assert not any(overlap(one, other) for one, other in itertools.combinations(boxes, 2))
    assert all(box[0] >= 0 and box[2] <= wide for box in boxes)


@given(
    st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=8),
    st.sampled_from(["step_time_s", "cost_usd", "energy_j_per_million_tokens"]),
)
def test_every_value_lies_on_its_axis(values, key):
    found = axis(quantity(key), values)
    assert all(0 <= found.place(value) <= 1 for value in values)


@given(st.floats(1e-6, 1e9), st.floats(1.5, 1e6))
def test_a_logarithmic_axis_has_enough_ticks(low, ratio):
    marks = decade_ticks(low, low * ratio)
    assert marks == sorted(marks)
    assert len(marks) >= (1 if ratio < 3 else 3)
    assert all(low <= mark <= low * ratio for mark in marks)


def test_efficiency_is_the_share_of_linear_scaling_from_the_fewest_devices():
    rows = rows_of(
        [Scale(line="a", devices=n, tokens_per_s=rate) for n, rate in ((8, 100.0), (32, 360.0), (16, 195.0))]
    )
    assert [row["share_of_linear"] for row in rows] == pytest.approx([1.0, 0.9, 0.975])


@pytest.mark.parametrize("path", ["a.svg", "a.html"])
def test_pictures_have_colors_for_dark_screens_but_not_for_print(path):
    text = rendering.draw(plan_chart(plan_answers.trained()), path)
    assert "@media screen and (prefers-color-scheme:dark)" in text
    assert "@media print{svg" not in text


def test_a_page_holds_the_narrow_form_too():
    wide, narrow = (plan_chart(plan_answers.trained(), room=room) for room in (drawing.SCREEN, drawing.PHONE))
    schemas = [chart_page(wide, *room).count('"$schema"') for room in ((), (narrow,))]
    assert schemas[1] == schemas[0] + 1


def test_energy_per_token_has_an_axis_in_watt_hours():
    shown = axis(quantity("energy_j_per_million_tokens"), [3.6e5, 7.2e5])
    assert "(Wh)" in shown.title
    assert shown.divisor == 3600.0
