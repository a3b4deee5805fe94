"""``sightline predict --anchor``, ``--save-anchor`` and ``sightline catalog anchors``."""

import csv
import io
import json

import pytest

from sightline.runs import open_store

MEASURED = "llama-2-7b-measured-8xa800.yaml"


@pytest.fixture(autouse=True)
def _store(monkeypatch, tmp_path):
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))


@pytest.fixture
def measured(example):
    return example.parent / MEASURED


def _json(in_process, *arguments):
    code, out, err = in_process(*arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_an_anchor_moves_the_prediction_and_says_what_it_taught(in_process, example, measured):
    before = _json(in_process, "predict", example)
    after = _json(in_process, "predict", example, "--anchor", measured)
    assert "anchor" not in before
    assert after["step_time_s"] == pytest.approx(0.52, rel=0.05)
    low, high = after["interval"]["step_time_s"]
    assert high / low < before["interval"]["step_time_s"][1] / before["interval"]["step_time_s"][0]
    (taught,) = after["anchor"]
    assert set(taught) == {"from", "learned", "unused", "sentence"}
    assert taught["from"] == str(measured)
    for lesson in taught["learned"]:
        assert set(lesson) == {"constant", "assumed", "value", "interval"}
        assert lesson["interval"][0] < lesson["value"] < lesson["interval"][1]


def test_people_read_what_was_learned(in_process, example, measured):
    code, out, err = in_process("predict", example, "--anchor", measured, "--sweep", "plan.micro_batch=1,2")
    assert (code, err) == (0, "")
    assert out.count("anchored to") == 1
    assert "measured 0.52 s" in " ".join(out.split())
    rows = list(csv.DictReader(io.StringIO(in_process("predict", example, "--anchor", measured, "--csv")[1])))
    assert "measured 0.52 s" in rows[0]["anchor"]


def test_an_anchor_is_saved_used_listed_shown_and_deleted(in_process, example, measured):
    arguments = ("predict", example, "--anchor", measured, "--json")
    code, first, err = in_process(*arguments, "--save-anchor", "our-cluster")
    assert (code, err) == (0, "sightline: saved anchor 'our-cluster'\n")
    again = _json(in_process, "predict", example, "--anchor", "our-cluster")
    assert again["step_time_s"] == pytest.approx(json.loads(first)["step_time_s"])
    (listed,) = _json(in_process, "catalog", "anchors")
    assert (listed["name"], listed["schema"], listed["models"]) == ("our-cluster", 1, ["llama-2-7b"])
    assert listed["taught"]
    shown = _json(in_process, "catalog", "anchors", "our-cluster")
    assert shown["measurements"][0]["measured"] == {"step_time_s": 0.52}
    assert "our-cluster" in in_process("catalog", "anchors")[1]
    assert "520 ms" in in_process("catalog", "anchors", "our-cluster")[1]
    assert _json(in_process, "catalog", "anchors", "our-cluster", "--delete") == {"deleted": "our-cluster"}
    assert _json(in_process, "catalog", "anchors") == []


def test_a_stored_run_is_an_anchor_unless_it_failed(in_process, example):
    scenario = _json(in_process, "predict", example)["scenario"]
    store = open_store()
    good = store.begin("mine", scenario=scenario).finish(result={"step_time_s": 0.5, "source": "measured"})
    bad = store.begin("other", scenario=scenario).finish(status="out_of_memory", reason="too big")
    assert _json(in_process, "predict", example, "--anchor", good.id)["step_time_s"] == pytest.approx(0.5, rel=0.05)
    code, out, err = in_process("predict", example, "--anchor", bad.id)
    assert (code, out) == (2, "")
    assert f"run '{bad.id}'" in err


def test_the_result_of_measure_is_an_anchor_and_a_prediction_is_none(in_process, example, tmp_path):
    result = _json(in_process, "predict", example)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result))
    assert "prediction" in in_process("predict", example, "--anchor", path)[2]
    path.write_text(json.dumps(result | {"source": "measured", "step_time_s": 0.5}))
    assert _json(in_process, "predict", example, "--anchor", path)["step_time_s"] == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--anchor", "nothing"), "'nothing'"),
        (("--anchor", "nothing.yaml"), "'nothing.yaml'"),
        (("--anchor", "/"), "'/' is a folder"),
        (("--anchor", "nothing", "--save-anchor", "latest"), "'latest'"),
        (("--save-anchor", "mine"), "--save-anchor 'mine' requires --anchor"),
    ],
)
def test_what_is_wrong_with_an_anchor_is_a_sentence(in_process, example, arguments, said):
    code, out, err = in_process("predict", example, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_files_that_teach_nothing_are_all_named(in_process, example, tmp_path):
    empty, broken = tmp_path / "empty.yaml", tmp_path / "broken.yaml"
    empty.write_text(example.read_text())
    broken.write_text("a: [")
    code, out, err = in_process("predict", example, "--anchor", example, "--anchor", empty, "--anchor", broken)
    assert (code, out) == (2, "")
    assert err.count("anchor '") == 2
    assert "broken.yaml" in err


def test_a_misspelt_name_is_answered_with_the_nearest(in_process, example, measured):
    in_process("predict", example, "--anchor", measured, "--save-anchor", "our-cluster")
    assert "did you mean 'our-cluster'" in in_process("predict", example, "--anchor", "our-clustre")[2]


def test_only_anchors_are_deleted(in_process):
    for arguments in (("devices", "--delete"), ("anchors", "--delete")):
        code, out, err = in_process("catalog", *arguments)
        assert (code, out) == (2, "")
        assert "--delete" in err


def test_a_file_with_measurements_is_said_to_be_an_anchor(in_process, example):
    measured = example.parent / "llama-2-7b-measured-8xa800.yaml"
    assert "--anchor FILE" in in_process("predict", measured)[2]
    assert "--anchor FILE" not in in_process("predict", measured, "--anchor", measured)[2]


def test_a_row_of_a_table_is_named_with_what_it_is_of(in_process, tmp_path):
    table = tmp_path / "mine.csv"
    shared = "llama-3.1-8b,{devices}x h100-sxm-80gb,pretrain,4096,128,megatron,1,1,{seconds},mine"
    keys = (
        "workload.task,workload.sequence_length,workload.global_batch,plan.framework,plan.micro_batch,plan.zero_stage"
    )
    rows = [shared.format(devices=8, seconds=6.1), shared.format(devices=16, seconds=16.1)]
    table.write_text("\n".join([f"model,cluster,{keys},measured.step_time_s,measured.source", *rows]) + "\n")
    asked = ("--model", "llama-3.1-8b", "--cluster", "32x h100-sxm-80gb", "--framework", "megatron")
    code, _, said = in_process("predict", *asked, "--set", "plan.zero_stage=1", "--anchor", table)
    assert code == 2
    assert "mine.csv, row 2: llama-3.1-8b on 16 x h100-sxm-80gb" in said
    assert "16.1 s" in said
