"""``sightline predict`` with ``task: generate``: table, JSON, CSV, pictures, and generation beside training."""

import csv
import io
import json

import pytest

from sightline.profile import GENERATION


@pytest.fixture
def generate(example):
    return example.parent / "llama-2-70b-generate-4xh100.yaml"


def test_a_prediction_is_a_short_table(in_process, generate):
    code, out, err = in_process("predict", generate)
    assert (code, err) == (0, "")
    for said in ("Llama-2-70B, vLLM, 4 x H100", "TTFT", "TPOT", "tokens/s", "prefill", "KV cache"):
        assert said in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_json_has_the_documented_keys(in_process, generate):
    result = json.loads(in_process("predict", generate, "--json")[1])
    assert sum(result["phases"].values()) == pytest.approx(result["latency_s"])
    assert set(result["phases"]) == set(GENERATION.phases)
    assert result["latency_s"] == pytest.approx(result["ttft_s"] + 127 * result["tpot_s"])
    assert result["output_tokens_per_s"] == pytest.approx(16 * 128 / result["latency_s"])


def test_the_resolved_scenario_predicts_the_same(in_process, run, generate):
    first = json.loads(in_process("predict", generate, "--json")[1])
    again = run("predict", "-", "--json", stdin=json.dumps(first["scenario"]))
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["latency_s"] == pytest.approx(first["latency_s"])


def test_each_kind_has_its_table(in_process, generate, example):
    code, out, err = in_process("predict", generate, example, example.parent / "operators.yaml")
    assert (code, err) == (0, "")
    for said in ("step", "TTFT", "FLOP/s"):
        assert said in out


def test_csv_has_a_line_each_beside_training(in_process, generate, example):
    lines = list(csv.DictReader(io.StringIO(in_process("predict", generate, example, "--csv")[1])))
    assert [bool(line["ttft_s"]) for line in lines] == [True, False]
    assert [line["model"] for line in lines] == ["llama-2-70b", "llama-2-7b"]


@pytest.mark.parametrize(("option", "name", "start"), [("--chart", "a.svg", b"<svg"), ("--html", "a.html", b"<!doc")])
def test_pictures_are_drawn(in_process, generate, tmp_path, option, name, start):
    code, _, err = in_process("predict", generate, option, tmp_path / name, "--sweep", "workload.batch=1,4,16")
    assert code == 0, err
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_trace_shows_prefill_and_decode(in_process, generate, tmp_path):
    file = tmp_path / "a.json"
    code, _, _ = in_process("predict", generate, "--trace", file)
    names = {event["name"] for event in json.loads(file.read_text())["traceEvents"]}
    assert code == 0
    assert {"decode 1", "decode 2"} <= names
    assert any(name.startswith("prefill") for name in names)


def test_one_picture_of_two_kinds_is_refused(in_process, generate, example, tmp_path):
    code, out, err = in_process("predict", generate, example, "--chart", tmp_path / "a.svg")
    assert (code, out) == (2, "")
    assert "chart" in err
    assert not (tmp_path / "a.svg").exists()


def test_one_process_answers_many_times(in_process, generate, example):
    for file in (example, generate, example):
        code, _, err = in_process("predict", file, "--json")
        assert (code, err) == (0, "")
