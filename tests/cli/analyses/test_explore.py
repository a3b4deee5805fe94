"""``sightline explore``: built-in studies listed, and one of one's own run."""

import json
from pathlib import Path

import pytest

from sightline.exploration import BUILT_IN
from sightline.exploration.run import QUICK

STUDIES = sorted((Path(__file__).parents[3] / "examples" / "studies").glob("*.yaml"))
STUDY = """
base:
  model: llama-2-7b
  cluster: 1x h100-sxm-80gb
  workload: {task: generate, batch: 1, prompt_tokens: 64, output_tokens: 8}
axes: {cluster.device.memory_bandwidth: [1 TB/s, 4 TB/s], workload.batch: [1, 8]}
"""


def test_without_a_name_the_studies_are_listed(in_process):
    code, out, err = in_process("explore")
    assert (code, err) == (0, "")
    assert all(name in out for name in BUILT_IN)
    assert "axes" in out
    assert [one["study"] for one in json.loads(in_process("explore", "--json")[1])] == list(BUILT_IN)


def test_json_has_the_documented_keys(in_process, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(STUDY)
    code, out, err = in_process("explore", file, "--json", "--set", "plan.framework=vllm")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert {"version", "schema", "study", "axes", "rows", "summary", "assumptions"} <= set(document)
    assert (document["study"], len(document["rows"])) == ("study", 4)
    assert {"ttft_s", "tpot_s", "fits", "bound_level", "workload.batch"} <= set(document["rows"][0])
    assert {"points", "best", "bound_level", "elasticities", "break_even"} <= set(document["summary"])


def test_a_terminal_shows_the_reading_and_the_table(in_process, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(STUDY)
    code, out, _ = in_process("explore", file, "--view", "both", "-v")
    assert code == 0
    assert "Ideal view" in out
    assert "assumes" in out


def test_csv_has_a_line_for_each_point(in_process, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(STUDY)
    code, out, _ = in_process("explore", file, "--csv", "--quick")
    assert code == 0
    assert len(out.splitlines()) == 1 + 4


def test_a_study_may_come_from_stdin(run):
    answer = run("explore", "-", "--json", "--view", "ideal", stdin=STUDY)
    assert answer.returncode == 0
    assert len(json.loads(answer.stdout)["rows"]) == 4


def test_charts_and_pages_are_written(in_process, tmp_path):
    file, chart, page = tmp_path / "study.yaml", tmp_path / "study.svg", tmp_path / "study.html"
    file.write_text(STUDY)
    assert in_process("explore", file, "--chart", chart, "--html", page)[0] == 0
    assert "<svg" in chart.read_text()
    assert "<html" in page.read_text()


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_each_example_runs(in_process, path):
    code, out, err = in_process("explore", path, "--quick", "--json")
    assert (code, err) == (0, f"sightline: warning: {QUICK}\n" if "from:" in path.read_text() else "")
    assert any(row["fits"] for row in json.loads(out)["rows"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["drams"], "did you mean 'dram'?"),
        (["nowhere.yaml"], "nowhere.yaml"),
        (["dram", "--view", "idel"], "did you mean 'ideal'?"),
        (["dram", "--json", "--csv"], "--csv"),
        (["dram", "--chart", "study.pdf"], ".svg"),
    ],
)
def test_a_wrong_request_is_a_sentence(in_process, arguments, words):
    code, out, err = in_process("explore", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_all_mistakes_of_a_file_are_said_with_its_name(in_process, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(STUDY + "view: idel\nfoo: 1\n")
    code, _, err = in_process("explore", file)
    assert code == 2
    assert err.count(str(file)) == 2
