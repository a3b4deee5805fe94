"""Studies: labels, units and texts of their columns, and what a terminal, a page and CSV show of them."""

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import study_answers
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sightline.answers.study import quantity_of, studies_outline, study_outline
from sightline.answers.units import NOTHING
from sightline.exploration.study_answer import BOUND_BY, Column
from sightline.render.csv import study_to_csv
from sightline.render.document import outline_page
from sightline.render.terminal import SCREEN_LINES, outline_text

ANSWERS = (
    study_answers.nodes,
    study_answers.factors,
    study_answers.tornado,
    study_answers.grid,
    study_answers.trends,
    study_answers.scaling,
)


@pytest.fixture(params=ANSWERS, ids=lambda make: make.__name__)
def answer(request):
    """An answer of each kind of figure."""
    return request.param()


@pytest.mark.parametrize(
    ("column", "value", "heading", "text", "axis"),
    [
        (Column(label="step time", unit="s"), 29.1, "step time", "29.1 s", "step time (seconds)"),
        (Column(label="energy", unit="J"), 5e6, "energy", "1.39 kWh", "energy (kWh)"),
        (
            Column(label="rent", unit="USD", per="per million tokens"),
            0.02,
            "rent per million tokens",
            "$0.0200",
            "rent (USD per million tokens)",
        ),
        (Column(label="energy", unit="J", per="per token"), 0.3, "energy per token", "0.300 J", "energy (J per token)"),
        (Column(label="price", unit="USD"), 1599, "price", "$1,599", "price (USD)"),
        (Column(label="FLOP/s", unit="FLOP/s", per="per USD"), 6e8, "FLOP/s per USD", "600 MFLOP/s", "MFLOP/s per USD"),
        (Column(label="peak FLOP/s", unit="FLOP/s"), 2e12, "peak FLOP/s", "2 TFLOP/s", "peak (TFLOP/s)"),
        (Column(label="bandwidth", unit="B/s"), 2e12, "bandwidth", "2 TB/s", "bandwidth (TB/s)"),
        (Column(label="latency", unit="s"), 2e-6, "latency", "2.00 us", "latency (microseconds)"),
        (Column(label="memory", unit="B"), 80 * 2**30, "memory", "80.0 GiB", "memory (GiB)"),
        (Column(label="MFU", unit="share"), 0.5, "MFU", "50.0 %", "MFU (%)"),
        (Column(label="launched", unit="year"), 2006.0, "launched", "2006", "launched"),
        (Column(label="die area", unit="m2"), 814e-6, "die area", "814 mm2", "die area (mm2)"),
        (Column(label="pin rate", unit="bit/s"), 6.4e9, "pin rate", "6.4 Gbit/s", "pin rate (Gbit/s)"),
        (Column(label="gain"), 35.13, "gain", "35.1", "gain"),
        (Column(label="devices"), 100_000, "devices", "100,000", "devices"),
    ],
)
def test_values_have_the_unit_that_suits_them(column, value, heading, text, axis):
    quantity = quantity_of("key", {"key": column})
    assert quantity.heading == heading
    assert quantity.text(value) == text
    assert quantity.titled(quantity.scaled(value)[1]) == axis


def test_a_column_that_nobody_states_has_its_key_and_no_unit():
    quantity = quantity_of("plan.virtual_stages", {})
    assert quantity.heading == "plan virtual stages"
    assert quantity.text(3) == "3"


def test_readers_may_see_another_name():
    quantity = quantity_of("latency_s", {"latency_s": Column(label="latency", unit="s")}, "time of an answer")
    assert quantity.titled(quantity.scaled(2.0)[1]) == "time of an answer (seconds)"


@pytest.mark.parametrize(
    ("value", "words"), [("dram", "DRAM"), ("l2", "L2"), ("compute", "compute"), ("host-1", "host-1"), (True, "yes")]
)
def test_values_are_said_in_the_words_of_their_column(value, words):
    assert quantity_of("bound_level", {"bound_level": BOUND_BY}).text(value) == words


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_what_is_not_there_is_a_dash(value):
    assert quantity_of("step_time_s", {}).text(value) == NOTHING


@given(
    st.sampled_from(["s", "B", "B/s", "FLOP/s", "J", "W", "USD", "share", "tokens", "m2", "bit/s", "kg", ""]),
    st.floats(1e-9, 1e24),
)
def test_values_of_any_size_have_a_short_text(unit, value):
    quantity = quantity_of("key", {"key": Column(label="key", unit=unit)})
    assert 0 < len(quantity.text(value)) < 40
    assert quantity.scaled(value)[0] > 0


def shown(block, width=120, **given):
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(outline_text(block, **given))
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(answer, width):
    assert max(map(len, shown(study_outline(answer), width).splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_study_says_what_it_found_and_what_it_assumes(width):
    text = " ".join(shown(study_outline(study_answers.nodes()), width).split())
    for said in (
        "Training GPT-3 175B on devices of 12 nm to 1 nm",
        "the bound moves from compute to DRAM",
        "All devices have 826 mm2 and 400 W.",
        "5 more columns; use --csv",
    ):
        assert said in text
    assert text.index("the bound moves") < text.index("29.1 s") < text.index("826 mm2")


def test_levels_are_words_and_figures_have_units():
    line = next(
        line for line in shown(study_outline(study_answers.nodes())).splitlines() if line.startswith("HBM2E   1 nm")
    )
    assert line.split() == ["HBM2E", "1", "nm", "7.37", "s", "DRAM", "1.02", "kWh"]


def test_long_tables_show_their_head():
    answer = study_answers.grid(9)
    text = shown(study_outline(answer), most_lines=SCREEN_LINES)
    assert len(text.splitlines()) == SCREEN_LINES
    more = int(re.search(r"-v also shows .*?(\d+) more", text)[1])
    assert len(shown(study_outline(answer)).splitlines()) == SCREEN_LINES + more - 2


def test_a_narrow_terminal_names_once_what_rows_share():
    answer = study_answers.nodes()
    wide = replace(answer, shown=("memory", "node", "step_time_s", "compute_s", "dram_s", "network_s", "bound_level"))
    lines = shown(study_outline(wide), 46).splitlines()
    assert sum(line.strip() == "HBM2E" for line in lines) == 1
    assert any(line.startswith("HBM2 ") for line in shown(study_outline(wide), 80).splitlines())


def test_whole_numbers_have_as_many_digits_as_others_in_their_column():
    answer = replace(study_answers.factors(), columns={"factor": ["a", "b"], "gain": [1.0, 1.45]}, figures=())
    assert "1.00" in shown(study_outline(answer))


def test_a_study_without_rows_has_no_table():
    answer = replace(study_answers.nodes(), columns={}, figures=())
    assert "What" not in shown(study_outline(answer))
    assert study_to_csv(answer) == "\n"


def test_csv_has_every_row_and_column_in_si_units(answer):
    lines = list(csv.DictReader(io.StringIO(study_to_csv(answer))))
    assert len(lines) == len(answer)
    assert list(lines[0]) == list(answer.columns)


def test_csv_leaves_cells_without_a_figure_empty():
    answer = replace(study_answers.nodes(), columns={"node": ["a", "b"], "step_time_s": [1.5, float("nan")]})
    assert study_to_csv(answer) == "node,step_time_s\na,1.5\nb,\n"


@pytest.mark.parametrize("width", [40, 100])
def test_the_list_of_studies_is_cut_nowhere(width):
    asks = {"dram": "latency of generation from GDDR6 to beyond HBM4", "memory-footprint": "memory of a training step"}
    text = shown(studies_outline(asks), width)
    assert max(map(len, text.splitlines())) <= width
    for name in asks:
        assert name in text
    assert {"GDDR6", "HBM4"} <= {*text.split()}


def test_a_count_does_not_repeat_its_heading():
    about = {"parameters": Column(label="parameters", unit="parameters")}
    columns = {"model": ["a"], "parameters": [7e9]}
    answer = replace(study_answers.nodes(), about=about, columns=columns, shown=(), figures=())
    assert shown(study_outline(answer)).count("parameters") == 1
    assert "7 B" in shown(study_outline(answer))


def test_columns_without_a_figure_in_the_head_are_left_out():
    empty = {"budget_usd": [1e6, 1e7], "limit_s": [float("nan")] * 2, "loss": [2.0, 1.9]}
    answer = replace(study_answers.nodes(), columns=empty, shown=(), figures=())
    assert "limit" not in shown(study_outline(answer))


def test_rows_that_lack_the_last_label_are_named_by_the_one_before():
    columns = {"view": ["ideal"] * 2, "budget_usd": [1e6, None], "limit_s": [None, 86400.0], "loss": [2.0, 1.9]}
    axes = {"view": ["ideal"], "budget_usd": [1e6], "limit_s": [86400.0]}
    about = {"budget_usd": Column(label="budget", unit="USD"), "limit_s": Column(label="limit", unit="s")}
    answer = replace(study_answers.nodes(), axes=axes, about=about, columns=columns, shown=(), figures=())
    lines = [line.split() for line in shown(study_outline(answer), 20).splitlines()]
    assert ["budget", "$1M", "2.00"] in lines
    assert ["limit", "24.0", "h", "1.90"] in lines


def test_rows_that_few_would_share_a_line_with_say_more_themselves():
    columns = {
        "view": ["ideal"] * 12,
        "model": [model for model in ("a small model", "a large model") for _ in range(6)],
        "plan": [plan for _ in range(2) for plan in ("none", "selective", "full") for _ in range(2)],
        "device": ["a100", "b200"] * 6,
        "memory": ["a large number of bytes"] * 12,
    }
    answer = replace(study_answers.nodes(), columns=columns, shown=(), figures=(), axes=dict.fromkeys(columns, ()))
    answer = replace(answer, columns=columns | {"share": [0.5] * 12}, axes={"view": (), "model": (), "plan": ()})
    lines = [line.strip() for line in shown(study_outline(answer), 60).splitlines()]
    assert lines.count("ideal, a small model") == 1
    assert any(line.startswith("selective, b200") for line in lines)


def page_of(answer):
    return outline_page(study_outline(answer, csv=study_to_csv(answer)))


class Text(HTMLParser):
    """The text of a page without its scripts and styles, and its tags."""

    def __init__(self, page):
        super().__init__()
        self.skipping, self.said, self.tags = False, [], []
        self.feed(page)

    def handle_starttag(self, tag, _):
        self.skipping = tag in ("script", "style")
        self.tags.append(tag)

    def handle_endtag(self, _):
        self.skipping = False

    def handle_data(self, data):
        if not self.skipping:
            self.said.append(data)


def test_a_page_says_all_of_a_study():
    answer = replace(study_answers.nodes(), warnings=("HBM4 is <estimated>.",))
    page = Text(page_of(answer))
    said = "".join(page.said)
    for sentence in (answer.title, *answer.reading, *answer.assumptions, "Warning: HBM4 is <estimated>."):
        assert sentence in said
    assert page.tags.count("tr") == 1 + len(answer)
    assert "memory,node,step_time_s" in said
    assert "details" in page.tags


def test_a_page_has_a_form_of_its_pictures_for_phones():
    page = page_of(study_answers.nodes())
    assert "window.innerWidth" in page
    assert 'src="http' not in page


def test_long_tables_are_cut_and_complete_as_csv():
    answer = study_answers.grid(20)
    page = Text(page_of(answer))
    said = "".join(page.said)
    assert page.tags.count("tr") == 1 + 200
    assert "200 more; use --csv or --json" in said
    assert said.count("\n") > 400


def test_a_page_of_very_many_rows_says_where_they_are():
    said = "".join(Text(outline_page(study_outline(replace(study_answers.grid(80), figures=())))).said)
    assert "6,200 more; use --csv or --json" in said
