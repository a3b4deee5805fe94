"""An explanation as text, page, Markdown, CSV and picture: what a reader sees, whatever it holds."""

from dataclasses import replace

import pytest
from rendered import text

from sightline.answers.analyses import MOST_MODULES, explained_outline, modules
from sightline.answers.changes import NOTHING_HELPS
from sightline.charts.explanation_bars import COLORS, explained_chart
from sightline.charts.index import charts_of
from sightline.charts.rendering import data_of
from sightline.explanation.answer import Advice, Explanation, Limit
from sightline.profile import Row
from sightline.render.csv import explained_to_csv
from sightline.render.document import outline_page
from sightline.render.markdown import outline_markdown

ADVICE = Advice(
    set={"plan.zero_stage": 1},
    gain_s=0.2,
    gain=0.2,
    sentence="Exposed communication takes 400 ms of 1 s. With zero_stage: 1 <b>less</b>.",
    command="sightline predict 'my file.yaml' --set plan.zero_stage=1",
)


def _row(module, seconds, bound="compute"):
    return Row(
        phase="forward", block="layer", module=module, operator="op", time_s=seconds, exposed_s=seconds, bound=bound
    )


MEASURED = Explanation(
    title="A job <script>",
    source="measured",
    whole="step_time_s",
    whole_s=1.0,
    phases={"forward": 0.6, "communication_exposed": 0.4},
    limits=[
        Limit(limit="compute", time_s=0.6, share=0.6, alone_s=0.3),
        Limit(limit="unmatched", time_s=0.4, share=0.4),
    ],
    rows=[_row(f"module {number}", 0.05) for number in range(12)],
    advice=[ADVICE],
    sentences=["The first.", "The second."],
    warnings=["a busy machine"],
)
EMPTY = Explanation(
    title="nothing", source="predicted", whole="latency_s.mean", whole_s=0.0, phases={}, limits=[], rows=[], advice=[]
)


def _printed(explanation, width):
    return text(explained_outline(explanation), width, in_full=True)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_shows_everything_at_any_width(width):
    out = _printed(MEASURED, width)
    assert "1.00 s · measured step time" in out
    assert "300 ms if nothing else limited it" in " ".join(out.split())
    assert "plan.zero_stage=1" in out
    assert "The second." in out
    assert "…" not in out
    assert all(len(line.rstrip()) <= width for line in out.splitlines())


def test_without_advice_it_says_that_nothing_helps():
    assert NOTHING_HELPS in _printed(replace(EMPTY, scenario={"task": "inference"}), 80)


def test_without_a_scenario_nothing_was_tried():
    assert NOTHING_HELPS not in _printed(EMPTY, 80)


def test_modules_beyond_the_longest_are_added_up():
    found = modules(MEASURED)
    assert len(found) == MOST_MODULES
    assert found[-1].label == "everything else"
    assert sum(part.share for part in found) == pytest.approx(sum(row.exposed_s for row in MEASURED.rows))


def test_the_page_and_markdown_show_names_as_they_are_written():
    page, markdown = outline_page(explained_outline(MEASURED)), outline_markdown(explained_outline(MEASURED))
    assert "A job &lt;script&gt;" in page
    assert "&lt;b&gt;less" in page
    assert "<script>" not in markdown
    assert ADVICE.command in markdown
    assert "a busy machine" in page
    assert "a busy machine" in markdown


def test_csv_has_rows_or_else_phases():
    assert explained_to_csv(MEASURED).count("module ") == len(MEASURED.rows)
    assert explained_to_csv(EMPTY).strip() == ""


def test_the_chart_has_a_bar_for_each_limit_and_a_tick_for_each_known_distance():
    spec = explained_chart(MEASURED)
    assert {"compute", "unmatched"} <= set(COLORS)
    drawn = [row for row in data_of(spec) if "alone_s" in row]
    assert {row["row"]: row["alone_s"] / row["end_s"] for row in drawn} == {"compute": pytest.approx(0.5)}
    assert [chart.name for chart in charts_of(MEASURED)] == ["explanation"]
    assert not charts_of(EMPTY)


def test_what_holds_nothing_is_written_too():
    assert "nothing" in outline_page(explained_outline(EMPTY))
    assert "nothing" in outline_markdown(explained_outline(EMPTY))
