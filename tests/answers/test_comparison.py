"""A comparison as text and picture: what is drawn is what was found."""

import pytest

from sightline.answers import comparison as words
from sightline.charts.explanation_bars import comparison_bars
from sightline.explanation.comparison import compare_sides
from sightline.explanation.reading import side_of_profile
from sightline.render.csv import comparison_to_csv


@pytest.fixture
def compared(profile):
    """A prediction and a measurement that took half as long again, but for one module that is missing."""
    rows = [row.lasting(1.5 * row.time_s) for row in profile.rows if row.module != "adam"]
    step_s = 1.5 * profile.step_time_s
    slower = profile.replace(
        source="measured",
        step_time_s=step_s,
        rows=rows,
        phases={phase: 1.5 * s for phase, s in profile.phases.items()},
        interval={"step_time_s": (0.98 * step_s, 1.02 * step_s)},
    )
    return compare_sides(side_of_profile(profile, "predicted"), side_of_profile(slower, "run"))


def values(spec, panel, side):
    """The data of one of a level's two panels."""
    drawn = spec["vconcat"][panel]["hconcat"][side]
    data = (drawn if "data" in drawn else drawn["layer"][-1])["data"]
    return spec["datasets"][data["name"]] if "name" in data else data["values"]


def test_bars_stand_side_by_side_and_ratios_have_their_interval(compared):
    spec = comparison_bars(compared)
    titles = [panel["hconcat"][0]["title"]["text"] for panel in spec["vconcat"]]
    assert [title.partition(" (")[0] for title in titles] == [
        "key figures",
        "time by phase",
        "time by module",
        "time by operator",
        "memory of the fullest device",
    ]
    bars = [(bar["row"], bar["side"], bar["text"]) for bar in values(spec, 0, 0)]
    assert bars == [("step time", "A", "1.25 s"), ("step time", "B", "1.88 s")]
    (ratio,) = values(spec, 0, 1)
    assert ratio["ratio"] == pytest.approx(1.5)
    assert ratio["ratio.low"] < 1.5 < ratio["ratio.high"]
    assert ratio["text"] == "1.50"


def test_a_row_of_one_side_has_one_bar_and_no_ratio(compared):
    spec = comparison_bars(compared)
    assert [bar["side"] for bar in values(spec, 2, 0) if "adam" in bar["row"]] == ["A"]
    assert not [ratio for ratio in values(spec, 2, 1) if "adam" in ratio["row"]]


def test_words_have_units_and_verdicts(compared):
    said = {(row.level, words.label(row)): row for row in compared.rows}
    memory = said["memory", "total"]
    assert (words.value(memory, memory.a), words.verdict(memory)) == ("60.0 GiB", "no difference")
    assert words.verdict(said["module", "optimizer: adam"]) == "only in A"
    assert words.value(memory, None) == "-"
    assert words.value(said["step", "MFU"], 0.5) == "50.0 %"
    assert words.verdict(said["step", "step time"]) == "50 % slower"


def test_csv_has_a_line_per_row(compared):
    lines = comparison_to_csv(compared).splitlines()
    assert lines[0] == "level,quantity,phase,module,operator,a,b,ratio,verdict,low,high,probability"
    assert len(lines) == 1 + len(compared.rows)


def test_ratios_beyond_the_axis_are_said_to_stand_at_its_edge(compared, profile):
    far = profile.replace(rows=[row.lasting(9 * row.time_s) for row in profile.rows])
    beyond = compare_sides(side_of_profile(profile, "predicted"), side_of_profile(far, "run"))
    said = "Ratios beyond 4 are drawn at the edge."
    assert said in comparison_bars(beyond)["title"]["subtitle"]
    assert said not in comparison_bars(compared)["title"]["subtitle"]
