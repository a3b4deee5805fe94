"""Charts: what they show, and that they become files."""

import xml.etree.ElementTree as ET

import pytest

from sightline.report.charts import prediction_chart
from sightline.report.drawing import draw


def texts(spec):
    svg = ET.fromstring(draw(spec, "chart.svg"))
    return ["".join(element.itertext()) for element in svg.iter("{http://www.w3.org/2000/svg}text")]


def test_one_prediction_is_labelled_directly(profile):
    shown = texts(prediction_chart([profile]))
    for label in (
        "Llama-2-7B, ZeRO-2, 8 x A800",
        "forward",
        "270 ms · 21.6 %",
        "mlp",
        "480 ms",
        "80.0 GiB on the device",
    ):
        assert label in shown
    assert any("bound by compute" in text for text in shown)


def test_several_predictions_share_one_picture(build, make_scenario, too_large):
    profiles = [build(scenario=make_scenario(micro_batch=m)) for m in (1, 2)] + [too_large]
    shown = texts(prediction_chart(profiles))
    assert any("does not fit" in text for text in shown)
    assert "micro_batch 1" in shown


def test_of_very_many_the_fastest_are_drawn(build, make_scenario):
    profiles = [build(scenario=make_scenario(), step_time_s=1 + n / 100) for n in range(70)]
    shown = texts(prediction_chart(profiles))
    assert any("The 60 with most tokens per second and device of 70." in text for text in shown)


def test_no_label_leaves_the_picture(profile):
    """Every text's anchor lies inside the picture, with room for a few characters."""
    root = ET.fromstring(draw(prediction_chart([profile]), "chart.svg"))
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


@pytest.mark.parametrize(("path", "start"), [("a.png", b"\x89PNG"), ("a.svg", "<svg"), ("a.html", "<!doctype html>")])
def test_the_ending_chooses_the_form(profile, path, start):
    assert draw(prediction_chart([profile]), path).startswith(start)


def test_a_profile_without_rows_is_drawn_too(build):
    assert "Forward and backward by module" not in texts(prediction_chart([build(rows=[])]))
