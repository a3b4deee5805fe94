"""Joined charts: what they share is not changed, and what they say is what Altair says."""

import altair as alt
import pytest
from drawn_charts import texts

from sightline.charts import drawing

VALUES = [{"x": 1, "row": "a"}, {"x": 2, "row": "b"}]


def _joined(base):
    bars = base.mark_bar().encode(x=alt.X("x:Q", title="time"), y=alt.Y("row:N"))
    layered = alt.layer(bars, bars.mark_text().encode(text="x:Q"), width=200, height=44)
    return alt.layer(layered, base.mark_rule().encode(x=alt.X("x:Q")))


def test_joining_charts_that_share_encodings_says_what_joining_copies_does():
    plain = alt.Chart(alt.InlineData(values=tuple(VALUES)))
    assert _joined(drawing.of(VALUES)).to_dict() == _joined(plain).to_dict()


def test_a_chart_that_was_joined_is_as_it_was():
    bars = drawing.of(VALUES).mark_bar().encode(x=alt.X("x:Q")).properties(width=200)
    before = bars.to_dict()
    alt.layer(bars, bars.mark_text()).interactive()
    bars.encode(x=alt.X("x:Q", title="other"))
    assert bars.to_dict() == before


def test_a_picture_of_one_panel_keeps_that_panels_heading():
    panel = alt.layer(_joined(drawing.of(VALUES)), title="Step time (seconds)")
    spec = drawing.configure(panel, "Llama-2-7B")
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
