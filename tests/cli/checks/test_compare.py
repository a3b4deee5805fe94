"""``sightline compare``: two names in; a table, JSON, CSV or a picture out; refusals in one sentence."""

import csv
import io
import json
import re

import pytest

PLAN = "model: llama-2-7b\ncluster: 8x a800-sxm-80gb\nplan: {framework: deepspeed, zero_stage: 2, recompute: %s}\n"
WORKLOAD = "workload: {task: pretrain, sequence_length: 350, global_batch: 16}\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))
    paths = [tmp_path / f"{recompute}.yaml" for recompute in ("none", "full")]
    for path in paths:
        path.write_text(PLAN % path.stem + WORKLOAD)
    return paths


def test_the_table_has_every_level_but_operators(in_process, files):
    code, out, err = in_process("compare", *files, "-v")
    assert (code, err) == (0, "")
    lines = [re.split(r"  +", line.strip()) for line in out.splitlines()]
    titles = [line[0] for line in lines if len(line) == 1]
    assert [t for t in titles if t.startswith("Time by") or t == "Key figures"] == [
        "Key figures",
        "Time by phase",
        "Time by module",
    ]
    assert any(re.match(r"weights .* no difference$", line.strip()) for line in out.splitlines())
    assert "probability" in out
    assert any(line[0] == "recompute" and line[-1] == "only in B" for line in lines)
    assert "recompute none and full" in out


def test_json_has_the_documented_keys_at_every_level(in_process, files):
    code, out, _ = in_process("compare", *files, "--json")
    said = json.loads(out)
    assert code == 0
    assert {"level", "phase", "module", "operator", "a", "b", "ratio", "interval"} <= said["rows"][0].keys()
    assert {row["level"] for row in said["rows"]} == {"step", "phase", "memory", "module", "operator"}
    assert [said[side]["source"] for side in "ab"] == ["predicted", "predicted"]


def test_levels_choose_rows_and_csv_has_a_line_each(in_process, files):
    code, out, _ = in_process("compare", *files, "--level", "phase, step", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert list(dict.fromkeys(row["level"] for row in rows)) == ["step", "phase"]
    assert float(rows[0]["b"]) / float(rows[0]["a"]) == pytest.approx(float(rows[0]["ratio"]))


@pytest.mark.parametrize("ending", ["svg", "html"])
def test_a_picture_is_drawn(in_process, files, tmp_path, ending):
    path = tmp_path / f"compared.{ending}"
    assert in_process("compare", *files, "--chart", path)[0] == 0
    assert "time by module" in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("{none}",), "B is missing"),
        (("{none}", "{full}", "--json", "--csv"), "--csv"),
        (
            ("{none}", "{full}", "--level", "phases"),
            "level is 'phases'; allowed: step, request, phase, memory, module, operator",
        ),
        (("{none}", "{full}", "--chart", "x.pdf"), "--chart 'x.pdf'"),
        (("{none}", "2026"), "no results or scenario file '2026', and no run '2026'"),
        (("{none}", "nothing.yaml"), "'nothing.yaml'"),
        (("latest", "predicted"), "is empty"),
    ],
)
def test_wrong_requests_end_in_one_sentence(in_process, files, arguments, sentence):
    paths = {f"{{{path.stem}}}": path for path in files}
    code, out, err = in_process("compare", *(paths.get(a, a) for a in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert sentence in err


def test_json_says_how_likely_either_is_the_faster_also_anchored(in_process, files, example):
    plain = json.loads(in_process("compare", *files, "--json")[1])["faster"]
    anchor = example.parent / "llama-2-7b-measured-8xa800.yaml"
    code, out, _ = in_process("compare", *files, "--json", "--anchor", anchor)
    learned = json.loads(out)["faster"]
    assert code == 0
    assert 0.5 < plain["a_is_faster"] < 1
    assert plain["interval"][0] < plain["ratio"] < plain["interval"][1]
    assert learned["interval"] != plain["interval"]
