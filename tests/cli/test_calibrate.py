"""``sightline calibrate``: from a table to constants that `predict` uses, and refusals in one sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TABLE = str(Path(__file__).parents[2] / "examples" / "tables" / "matmuls-a100.csv")
ASK = ("calibrate", "--from", TABLE, "--device", "a100-sxm-80gb")
SCENARIO = """
cluster: {devices: 1x a100-sxm-80gb, device: {calibration: mine, relatives: [a100-sxm]}}
workload: {task: operator, operator: matmul, m: 4096, n: 4096, k: 4096, dtype: bf16}
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A catalog folder with constants fitted to the example, and what the command printed."""
    folder = tmp_path_factory.mktemp("catalog")
    command = [sys.executable, "-m", "sightline", *ASK, "--family", "mine", "--out", folder, "--json"]
    answer = subprocess.run([*command, "--chart", folder / "r.svg"], capture_output=True, text=True, check=True)
    return folder, json.loads(answer.stdout)


def test_constants_come_with_rows_range_and_residuals(written):
    (said,) = written[1]
    assert said["part"] == "matmul"
    assert said["covered"]["16-bit"]["m"] == [16, 8192]
    assert 0.3 < said["constants"]["16-bit"]["peak_fraction"] <= 1
    assert said["rows"]["16-bit"]["table"] == 70
    assert all(0 <= r["median"] < 0.5 for r in said["residuals"]["16-bit"].values())


def test_the_chart_is_a_picture(written):
    assert (written[0] / "r.svg").read_text().startswith("<svg")


def test_predict_takes_the_constants(written):
    environment = os.environ | {"SIGHTLINE_CATALOG": str(written[0])}
    command = [sys.executable, "-m", "sightline", "predict", "-", "--json"]
    answer = subprocess.run(command, input=SCENARIO, capture_output=True, text=True, env=environment, check=False)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["evidence"] == "calibrated"


def test_nothing_is_replaced_unless_asked_for(in_process, written):
    code, out, err = in_process(*ASK, "--family", "mine", "--out", str(written[0]))
    assert (code, out) == (2, "")
    assert "matmul.yaml'" in err
    assert "--force" in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--family", "../mine", "--out", "x"), "--family is '../mine'"),
        (("--family", "h100-sxm", "--out", "x"), "'h100-sxm'"),
        (("--out", "nowhere/x.yaml"), "'nowhere'"),
        (("--only", "colour=red"), "--only is 'colour=red'"),
        (("--part", "training"), "unknown part 'training'"),
        (("--chart", "r.gif"), ".svg"),
    ],
)
def test_wrong_requests_end_in_one_sentence(in_process, arguments, sentence):
    code, out, err = in_process(*ASK, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
