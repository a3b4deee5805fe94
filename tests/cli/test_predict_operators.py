"""``sightline predict`` with ``task: operator``: table, JSON, CSV, and no pictures."""

import csv
import io
import json

import pytest

from sightline.scenario.operation import ELEMENTWISE

MATMUL = "{cluster: 1x a100-sxm-80gb, workload: {task: operator, operator: matmul, m: 4096, n: 4096, k: 4096}}"
KEYS = (
    "version schema scenario source bound_level time_s flops bytes flops_per_s bytes_per_s bound interval evidence "
    "warnings"
)


@pytest.fixture
def examples(example):
    return example.parent / "operators.yaml"


@pytest.fixture
def matmul(tmp_path):
    file = tmp_path / "matmul.yaml"
    file.write_text(MATMUL)
    return file


def test_json_has_the_documented_keys(in_process, matmul):
    code, out, err = in_process("predict", matmul, "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert list(result) == KEYS.split()
    assert result["flops"] == pytest.approx(2 * 4096**3)
    assert result["flops_per_s"] == pytest.approx(result["flops"] / result["time_s"])
    assert (result["source"], result["bound"], result["evidence"]) == ("predicted", "compute", "calibrated")
    assert result["scenario"]["workload"]["dtype"] == "bf16"


def test_the_resolved_scenario_predicts_the_same(in_process, run, matmul):
    first = json.loads(in_process("predict", matmul, "--json")[1])
    again = run("predict", "-", "--json", stdin=json.dumps(first["scenario"]))
    assert json.loads(again.stdout) == first


def test_one_operator_is_a_block(in_process, matmul):
    code, out, err = in_process("predict", matmul)
    assert (code, err) == (0, "")
    for said in ("matmul m 4,096, n 4,096, k 4,096, bf16 on a100-sxm-80gb", "speed", "TFLOP/s", "compute"):
        assert said in out


def test_a_measured_time_is_compared(in_process, matmul):
    assert "measured time_s" in in_process("predict", matmul, "--set", "measured.time_s=6e-4")[1]


def test_several_are_a_table(in_process, examples):
    code, out, err = in_process("predict", examples)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) >= 7
    for said in ("All-reduce", "network", "± ", "memory", "compute", "extrapolated"):
        assert said in out


def test_a_sweep_is_a_list_of_scalars(in_process, matmul):
    results = json.loads(in_process("predict", matmul, "--sweep", "workload.m=1,64,4096", "--json")[1])
    assert [r["scenario"]["workload"]["m"] for r in results] == [1, 64, 4096]
    assert all(isinstance(r["time_s"], float) for r in results)


def test_csv_has_a_line_each_beside_training(in_process, example, examples):
    lines = list(csv.DictReader(io.StringIO(in_process("predict", examples, example, "--csv")[1])))
    operators = len(lines) - 1
    assert operators >= 6
    assert [bool(line["time_s"]) for line in lines] == [True] * operators + [False]
    assert [bool(line["step_time_s"]) for line in lines] == [False] * operators + [True]


def test_steps_and_operators_have_a_table_each(in_process, example, matmul):
    out = in_process("predict", matmul, example)[1]
    assert "step" in out
    assert "FLOP/s" in out


def test_a_csv_may_ask_for_operators(in_process, tmp_path):
    file = tmp_path / "kernels.csv"
    rows = [f"1x h100-sxm-80gb,operator,{name},1e6" for name in ELEMENTWISE]
    file.write_text("\n".join(["cluster,workload.task,workload.operator,workload.elements", *rows]) + "\n")
    results = json.loads(in_process("predict", file, "--json")[1])
    assert [r["scenario"]["workload"]["operator"] for r in results] == list(ELEMENTWISE)


@pytest.mark.parametrize("option", [("--chart", "a.svg"), ("--trace", "a.json")])
def test_pictures_are_refused_in_a_sentence(in_process, matmul, tmp_path, option):
    code, out, err = in_process("predict", matmul, option[0], tmp_path / option[1])
    assert (code, out) == (2, "")
    assert "--html, --json or --csv" in err
    assert not (tmp_path / option[1]).exists()


def test_a_format_that_a_device_converts_warns_on_stderr(in_process, matmul):
    code, out, err = in_process("predict", matmul, "--set", "workload.format=fp8", "--json")
    assert code == 0
    assert json.loads(out)["warnings"]
    assert "fp8" in err


def test_the_interval_is_told_around_the_time(in_process, matmul):
    result = json.loads(in_process("predict", matmul, "--json")[1])
    low, high = result["interval"]["time_s"]
    assert low < result["time_s"] < high
    assert "(80 %: " in in_process("predict", matmul)[1]


def test_an_unknown_version_of_a_library_is_refused(in_process, matmul):
    ask = "{task: operator, operator: all_reduce, bytes: 1 MiB, version: '2.28.3'}"
    code, out, err = in_process("predict", matmul, "--set", f"workload={ask}", "--set", "cluster=8x h100-sxm-80gb")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'2.28.3'" in err
