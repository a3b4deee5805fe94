"""``sightline roofline``."""

import csv
import io
import json

import pytest


@pytest.fixture
def generate(example):
    return example.parent / "llama-2-7b-generate-a100.yaml"


def test_the_table_names_every_matmul_with_its_bound(in_process, generate):
    code, out, err = in_process("roofline", generate)
    assert (code, err) == (0, "")
    shown = " ".join(out.split())
    for said in (
        "prefill",
        "decode",
        "scores",
        "context",
        "32x200x200x128",
        "compute",
        "memory",
        "ridge 153 FLOP/byte",
    ):
        assert said in shown
    assert all(len(line) <= 80 for line in out.splitlines())


def test_every_device_has_a_table(in_process, generate):
    out = in_process("roofline", generate, "--devices", "a100-sxm-80gb,h100-sxm-80gb")[1]
    first, *_, last = (line for line in out.splitlines() if line.startswith("qkv"))
    assert "compute" in first
    assert "memory" in last
    assert "h100-sxm-80gb" in out


def test_json_is_one_object_or_a_list(in_process, generate):
    one = json.loads(in_process("roofline", generate, "--json")[1])
    assert one["device"] == "a100-sxm-80gb"
    assert len(one["rows"]) == 12
    several = json.loads(in_process("roofline", generate, "--json", "--sweep", "workload.batch=1,64")[1])
    assert [r["scenario"]["workload"]["batch"] for r in several] == [1, 64]


def test_csv_has_a_line_per_matmul(in_process, generate):
    lines = list(
        csv.DictReader(io.StringIO(in_process("roofline", generate, "--csv", "--devices", "h20,b200-sxm-180gb")[1]))
    )
    assert len(lines) == 24
    assert {line["device"] for line in lines} == {"h20", "b200-sxm-180gb"}
    assert all(float(line["predicted_s"]) > 0 for line in lines)


def test_a_chart_is_drawn(in_process, generate, tmp_path):
    code, _, err = in_process("roofline", generate, "--chart", tmp_path / "a.svg", "--devices", "h100-sxm-80gb")
    assert code == 0, err
    text = (tmp_path / "a.svg").read_text()
    assert "output projection" in text
    assert "ridge 295 FLOP/byte" in text


def test_operators_of_training_are_drawn(in_process, example, tmp_path):
    code, _, err = in_process("roofline", example, "--chart", tmp_path / "a.svg")
    assert code == 0, err
    text = (tmp_path / "a.svg").read_text()
    assert "intensity (FLOP/byte)" in text
    assert "DRAM" in text
    assert "mlp" in text


def test_operators_of_several_scenarios_are_not_drawn(in_process, example, tmp_path):
    asked = ("--sweep", "workload.sequence_length=256,512", "--chart", tmp_path / "a.svg")
    code, _, err = in_process("roofline", example, *asked)
    assert code == 2
    assert "--chart" in err


def test_training_has_no_table(in_process, example):
    code, out, err = in_process("roofline", example)
    assert (code, out) == (2, "")
    assert "workload.task" in err


def test_an_unknown_device_is_a_sentence_with_the_nearest(in_process, generate):
    code, out, err = in_process("roofline", generate, "--devices", "h100-sxm-80g")
    assert (code, out) == (2, "")
    assert "h100-sxm-80gb" in err


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_cuts_nothing(in_process, generate, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for options in ((), ("--devices", "a100-sxm-80gb,h100-sxm-80gb,rtx-4090")):
        lines = in_process("roofline", generate, *options)[1].splitlines()
        assert max(map(len, lines)) <= width
        assert "output projection" in "\n".join(lines)
        assert "…" not in "".join(lines)


def test_a_sweep_leaves_out_what_cannot_be(in_process, generate):
    code, out, err = in_process("roofline", generate, "--sweep", "plan.tensor_parallel=1,3", "--json")
    assert (code, [len(one["rows"]) for one in json.loads(out)]) == (0, [12])
    assert "plan.tensor_parallel is 3" in err
