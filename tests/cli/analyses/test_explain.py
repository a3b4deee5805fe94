"""``sightline explain``: a file or a run in; a screen of text, JSON, CSV, a picture or a page out; refusals."""

import csv
import io
import json
from pathlib import Path

import pytest

from sightline.quantities import GIB

SLOW = """
model: llama-2-7b
cluster: 8x a100-sxm-80gb
workload: {task: pretrain, sequence_length: 2048, global_batch: 64}
plan: {framework: megatron, tensor_parallel: 8, micro_batch: 1, recompute: full}
"""
MOST_LINES = 58
"""A screen; of a plan with several changes also their sentences."""


@pytest.fixture
def slow(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "80")
    # Commands name the file as it was typed, and a long path would widen them.
    monkeypatch.chdir(tmp_path)
    file = Path("slow.yaml")
    file.write_text(SLOW)
    return file


def test_the_first_lines_say_fit_speed_bound_cost_and_change(in_process, slow):
    code, out, err = in_process("explain", slow)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    asks = ("fits", "speed", "bound by", "cost", "What to change")
    assert [ask for line in lines for ask in asks if line.startswith(ask)] == list(asks)
    assert len(lines) <= MOST_LINES
    assert all(len(line) <= 80 for line in lines)
    assert "…" not in out


def test_each_advice_ends_in_a_command_that_predicts_it(in_process, slow):
    said = json.loads(in_process("explain", slow, "--set", "workload.global_batch=128", "--json")[1])
    assert said["advice"]
    before = json.loads(in_process("predict", slow, "--set", "workload.global_batch=128", "--json")[1])["step_time_s"]
    for one in said["advice"]:
        program, *words = one["command"].split()
        assert program == "sightline"
        assert {str(slow), "workload.global_batch=128"} <= set(words)
        after = json.loads(in_process(*words, "--json")[1])
        assert one["gain_s"] == pytest.approx(before - after["step_time_s"], rel=1e-9)
        assert f"needs {after['memory_bytes']['total'] / GIB:.1f} GiB" in one["sentence"]


def test_csv_has_a_line_for_each_row(in_process, slow):
    code, out, _ = in_process("explain", slow, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    said = json.loads(in_process("explain", slow, "--json")[1])
    assert code == 0
    assert sum(float(row["exposed_s"]) for row in rows) == pytest.approx(said["whole_s"])


@pytest.mark.parametrize("option", ["--chart", "--html"])
def test_a_picture_and_a_page_are_written(in_process, slow, tmp_path, option):
    path = tmp_path / ("explained.svg" if option == "--chart" else "explained.html")
    assert in_process("explain", slow, option, path)[0] == 0
    text = path.read_text()
    assert "What limits" in text
    assert "Time by module" in text


def test_markdown_goes_to_stdout_and_charts_into_a_folder(in_process, slow, tmp_path):
    folder = tmp_path / "charts"
    code, out, _ = in_process("explain", slow, "--markdown", "-", "--charts", folder)
    assert code == 0
    assert out.startswith("### ")
    assert "```bash\nsightline predict" in out
    assert {path.name for path in folder.iterdir()} >= {"explanation.svg", "explanation.csv"}


def test_a_file_of_several_is_asked_for_by_number(in_process):
    code, out, err = in_process("explain", "examples/many.csv")
    assert (code, out) == (2, "")
    assert "examples/many.csv#1" in err
    assert in_process("explain", "examples/many.csv#1", "--json")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nothing.yaml",), "'nothing.yaml'"),
        (("20990101",), "no run '20990101'"),
        (("latest",), "is empty"),
        (("lates",), "did you mean"),
        (("{slow}", "--json", "--csv"), "--csv"),
        (("{slow}", "--set", "plan.micro_batsh=2"), "plan.micro_batsh"),
        (("{slow}", "--chart", "x.pdf"), ".svg"),
        (("{slow}", "{slow}"), "trace"),
        ((), "FILE is missing"),
    ],
)
def test_wrong_requests_end_in_one_sentence(in_process, slow, arguments, sentence):
    code, out, err = in_process("explain", *(str(slow) if a == "{slow}" else a for a in arguments))
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
