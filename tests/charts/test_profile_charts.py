"""Charts: what they show, and that they become files."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from sightline.charts.drawing import PHASE_COLORS
from sightline.charts.profile_charts import profile_chart
from sightline.charts.rendering import draw
from sightline.profile import TASKS


def texts(spec):
    svg = ET.fromstring(draw(spec, "chart.svg"))
    return ["".join(element.itertext()) for element in svg.iter("{http://www.w3.org/2000/svg}text")]


def test_one_prediction_is_labelled_directly(profile):
    shown = texts(profile_chart([profile]))
    for label in (
        "Llama-2-7B, ZeRO-2, 8 x A800",
        "forward",
        "270 ms · 21.6 %",
        "mlp",
        "480 ms",
        "80.0 GiB device memory",
    ):
        assert label in shown
    assert any("bound by compute" in text for text in shown)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_phase_has_a_color_of_its_own(task):
    colors = [PHASE_COLORS[phase] for phase in task.phases]
    assert len({*colors}) == len(colors)


def test_several_predictions_share_one_picture(build, make_scenario, too_large):
    profiles = [build(scenario=make_scenario(micro_batch=m)) for m in (1, 2)] + [too_large]
    shown = texts(profile_chart(profiles))
    assert any("does not fit" in text for text in shown)
    assert "micro_batch 1" in shown


def test_of_very_many_the_fastest_are_drawn(build, make_scenario):
    profiles = [build(scenario=make_scenario(), step_time_s=1 + n / 100) for n in range(70)]
    shown = texts(profile_chart(profiles))
    assert any("60 of 70" in text for text in shown)


def test_no_label_leaves_the_picture(profile):
    """Every text's anchor lies inside the picture, with room for a few characters."""
    root = ET.fromstring(draw(profile_chart([profile]), "chart.svg"))
    width = float(root.get("viewBox").split()[2])
    for group, x in anchors(root):
        assert 0 <= x <= width - 20, group.text


def anchors(element, offset=0.0):
    """Yield text elements with the x of their anchor, summed over the groups they are in."""
    transform = element.get("transform", "")
    if transform.startswith("translate("):
        offset += float(transform.removeprefix("translate(").split(")")[0].split(",")[0])
    if element.tag.endswith("text"):
        yield element, offset
    for child in element:
        yield from anchors(child, offset)


@pytest.mark.parametrize(("path", "start"), [("a.png", b"\x89PNG"), ("a.svg", "<svg")])
def test_the_ending_chooses_the_form(profile, path, start):
    assert draw(profile_chart([profile]), path).startswith(start)


def test_a_profile_without_rows_is_drawn_too(build):
    assert "Device time by module" not in texts(profile_chart([build(rows=[])]))


def test_a_sweep_is_titled_by_what_it_shares_and_what_varies(build, make_scenario):
    """The base scenario's name says ZeRO-2, which the sweep changes."""
    swept = [build(scenario=make_scenario(zero_stage=stage)) for stage in (1, 2, 3)]
    title = profile_chart(swept)["title"]["text"]
    assert title == "llama-2-7b on 8 x a800-sxm-80gb by zero_stage"
    named = [p.replace(scenario=replace(p.scenario, name=f"plan {n}")) for n, p in enumerate(swept)]
    assert profile_chart(named)["title"]["text"] == "3 scenarios compared"


def test_time_by_module_holds_every_phase_in_which_the_device_works(profile):
    row = profile.rows[0]
    sent = replace(row, phase="communication_exposed", module="data parallel").lasting(0.3)
    waits = replace(row, phase="host", module="host").lasting(0.08)
    shown = texts(profile_chart([profile.replace(rows=[*profile.rows, sent, waits])]))
    assert "data parallel" in shown
    assert shown.count("host") == 1


def test_what_an_anchor_taught_is_below_the_title(build, make_scenario):
    said = (
        "step_time_s measured 0.52 s, predicted without it 0.5 s (+4 %): your network delivers 62 % of what was assumed"
    )
    taught = [{"from": "our-cluster", "learned": [], "unused": [], "sentence": said}]
    several = [build(scenario=make_scenario(micro_batch=m)).replace(anchor=taught) for m in (1, 2)]
    for profiles in (several[:1], several):
        # The ends of lines have no text of their own.
        shown = "".join(texts(profile_chart(profiles))).replace(" ", "")
        assert shown.count(f"anchored to our-cluster: {said}".replace(" ", "")) == 1
