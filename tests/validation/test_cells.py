"""A line of a table becomes a row as its suite's entry says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.validation.tables import LeftOutError, Line, catalog_name, lines_of, row_of_cells, scalar

DEVICES = {"counted": {"column": "gpu", "known": {"3090 24GB": "rtx-3090"}}}


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b"),
        ("nvidia/Qwen3-32B-NVFP4", "qwen3-32b"),
        ("Qwen/Qwen3-235B-A22B-FP8", "qwen3-235b-a22b"),
        ("Llama 2 13B", "llama-2-13b"),
        ("Falcon 180B", "falcon-180b"),
    ],
)
def test_a_repository_has_the_catalogs_name(repository, name):
    assert catalog_name(repository) == name


@given(st.text())
def test_any_text_is_a_name(text):
    assert catalog_name(text) == catalog_name(text).lower()


@pytest.mark.parametrize(
    ("gpu", "device", "number"),
    [("3090 24GB", "rtx-3090", 1), ("3090 24GB * 6", "rtx-3090", 6), ("RTX A6000 48GB x 4", "rtx-a6000", 4)],
)
def test_devices_are_counted(gpu, device, number):
    assert row_of_cells(Line({"gpu": gpu}, "here"), DEVICES) == {"device": device, "devices": number}


def test_a_printed_rate_becomes_a_time():
    spec = {
        "columns": {"measured.ttft_s": "tok_s", "workload.prompt_tokens": "n"},
        "rates": {"measured.ttft_s": "workload.prompt_tokens"},
    }
    assert row_of_cells(Line({"tok_s": "512", "n": "1024"}, "here"), spec)["measured.ttft_s"] == 2.0


def test_products_apply_where_their_condition_holds():
    rule = {"key": "measured.x", "of": ["measured.x", "devices"], "where": {"unit": "per GPU"}}
    spec = {"columns": {"measured.x": "x", "devices": "tp"}, "products": [rule]}
    assert row_of_cells(Line({"x": "10", "tp": "4", "unit": "per GPU"}, "here"), spec)["measured.x"] == 40
    assert row_of_cells(Line({"x": "10", "tp": "4", "unit": "whole group"}, "here"), spec)["measured.x"] == 10


def test_what_is_to_be_left_out_says_why():
    spec = {"leave_out": [{"where": {"note": ["OOM", "crash"]}, "reason": "out of memory"}]}
    with pytest.raises(LeftOutError, match="out of memory"):
        row_of_cells(Line({"note": "crash"}, "here"), spec)


def test_a_value_without_a_meaning_leaves_its_row_out_unless_there_is_one_for_the_rest():
    meanings = {"FP16": {"plan.dtype": "fp16"}}
    with pytest.raises(LeftOutError, match="precision is INT3"):
        row_of_cells(Line({"precision": "INT3"}, "here"), {"values": {"precision": meanings}})
    spec = {"values": {"precision": {**meanings, "otherwise": {"plan.dtype": "bf16"}}}}
    assert row_of_cells(Line({"precision": "INT3"}, "here"), spec) == {"plan.dtype": "bf16"}


def test_a_missing_column_is_named():
    with pytest.raises(InputError, match="here: column 'gpu'"):
        row_of_cells(Line({}, "here"), DEVICES)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a,b\n1\n", "table.csv line 2: column 'c' is missing"),
        (b"a,c\n1,many\n", "table.csv line 2: c is 'many'; allowed: a number"),
        (b"a,c\n1,1e999\n", "table.csv line 2: c is '1e999'; allowed: a number"),
        (b"a,c\n1,\xff\n", "table.csv cannot be read: 'utf-8' codec"),
        (b"a,c\n1," + b"x" * 200_000 + b"\n", "table.csv cannot be read: field larger than field limit"),
    ],
)
def test_lines_that_are_none_are_refused(tmp_path, content, said):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        [line.number("c") for line in lines_of(path)]
    assert said in str(raised.value)


def test_a_short_line_has_empty_cells_and_a_long_one_no_more(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1\n1,2,3\n")
    assert list(lines_of(path)) == [{"a": "1", "b": ""}, {"a": "1", "b": "2"}]


@pytest.mark.parametrize("text", ["1" + 400 * "0", "1e999", "nan", "9" * 5000, "1e30"])
def test_numbers_that_no_table_has_are_words(text):
    assert scalar(text) == text
