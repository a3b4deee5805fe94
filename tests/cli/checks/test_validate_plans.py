"""``sightline validate --plans``: how predictions decide between measured plans."""

import csv
import io
import json

import pytest

SEEN = "team/cluster"


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("SIGHTLINE_DATA", raising=False)


ROWS = """name,model,cluster.devices,workload.task,workload.sequence_length,workload.global_batch,plan.framework,\
plan.zero_stage,plan.micro_batch,measured.step_time_s,measured.fits,measured.source
one,llama-2-7b,8x a800-sxm-80gb,pretrain,4096,64,deepspeed,3,1,20,,team/cluster
two,llama-2-7b,8x a800-sxm-80gb,pretrain,4096,64,deepspeed,3,2,18,,team/cluster
larger,llama-2-7b,8x a800-sxm-80gb,pretrain,4096,64,deepspeed,0,8,,,team/cluster
stated,llama-2-7b,8x a800-sxm-80gb,pretrain,4096,64,deepspeed,3,8,,false,team/cluster
"""


def test_a_file_states_what_ran_and_what_ran_out(in_process, tmp_path):
    path = tmp_path / "layouts.csv"
    path.write_text(ROWS)
    code, out, err = in_process("validate", "--plans", path, "--json")
    assert (code, err) == (0, "")
    (found,) = json.loads(out)["decisions"]
    assert found["source"] == SEEN
    assert found["sweeps"]["count"] == found["pairs"]["micro_batch"]["count"] == 1
    assert sum(found["ran"].values()) == sum(found["ran_out"].values()) == 2
    assert found["ran_out"]["no"] >= 1
    source, every = csv.DictReader(io.StringIO(in_process("validate", "--plans", path, "--csv")[1]))
    assert (source["source"], every["source"]) == (SEEN, "all")
    assert source["pairs.micro_batch.measured"] == every["pairs.micro_batch.measured"]
    assert float(source["pairs.micro_batch.measured"]) == pytest.approx(-0.1)


def test_a_row_without_a_source_did_not_run_out(in_process, tmp_path):
    path = tmp_path / "layouts.csv"
    path.write_text(ROWS.replace("0,8,,,team/cluster", "0,8,,,"))
    code, out, err = in_process("validate", "--plans", path)
    assert (code, out) == (2, "")
    assert "measured" in err


@pytest.mark.parametrize("option", ["--left-out", "--cases", "--coverage"])
def test_decisions_stand_alone(in_process, option):
    code, out, err = in_process("validate", "--plans", option)
    assert (code, out) == (2, "")
    assert option in err


def test_suites_without_speeds_decide_nothing(in_process):
    code, _, err = in_process("validate", "korthikanti-2022-fig1", "--plans")
    assert code == 2
    assert "korthikanti-2022-fig1" in err
