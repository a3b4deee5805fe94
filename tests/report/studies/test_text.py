"""What the terminal and CSV files have of a study."""

import csv
import io
from dataclasses import replace

import pytest
import study_answers
from rich.console import Console

from sightline.answers.study import studies_outline, study_outline
from sightline.exploration.answer import Column
from sightline.render.csv import study_to_csv
from sightline.render.terminal import outline_text


def shown(block, width=120):
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(outline_text(block))
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
    text = shown(study_outline(answer))
    assert "57 more rows; use --csv" in text
    assert len(text.splitlines()) < 40


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
