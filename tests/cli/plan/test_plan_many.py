"""A search in parts as a user meets it: kept, stopped, gone on with, refused."""

import json
import os
import signal
import subprocess
import sys

import polars as pl
import pytest
from waiting import PATIENCE_S, until

from sightline.planning.training import distributed
from sightline.sweeps.chunks import SweepFolder

ASKED = {
    "model": "llama-2-7b",
    "cluster": "8x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 16},
    "plan": {
        "framework": "megatron",
        "context_parallel": 1,
        "offload": "none",
        "schedule": "1f1b",
        "virtual_stages": 1,
    },
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps(ASKED), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def parts_of_one_piece(monkeypatch):
    monkeypatch.setattr(distributed, "PIECES", 1)


def plans(out):
    return [(one["rank"], one["plan"], one["step_time_s"]) for one in json.loads(out)["plans"]]


def test_what_is_found_is_kept_in_tables_and_answered_alike(file, tmp_path, in_process):
    code, out, err = in_process("plan", file, "--top", 3, "--json", "--where", tmp_path / "search")
    assert code == 0
    assert err.splitlines()[-1] == f"sightline: wrote {tmp_path}/search/parts/*.parquet"
    assert plans(out) == plans(in_process("plan", file, "--top", 3, "--json")[1])
    assert pl.read_parquet(tmp_path / "search/parts/*.parquet")["evaluated"].sum() == json.loads(out)["evaluated"]


def test_ctrl_c_shows_what_was_found_and_the_same_command_goes_on(file, tmp_path, in_process, monkeypatch):
    write = SweepFolder.write

    def interrupted(folder, chunk, table):
        write(folder, chunk, table)
        if chunk == 1:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SweepFolder, "write", interrupted)
    command = ("plan", file, "--top", 3, "--json", "--where", tmp_path / "search")
    code, out, err = in_process(*command)
    assert code == 130
    assert plans(out)
    assert "resume" in err
    assert "searching stopped after 2 of" in err
    assert len(list((tmp_path / "search/parts").iterdir())) == 2
    code, out, _ = in_process(*command)
    assert code == 0
    assert plans(out) == plans(in_process("plan", file, "--top", 3, "--json")[1])


def test_a_disk_that_fills_is_a_sentence_and_what_was_kept_stays(file, tmp_path, in_process, monkeypatch):
    write, sync = SweepFolder.write, os.fsync

    def full(_handle):
        raise OSError(28, "No space left on device")

    def filling(folder, chunk, table):
        monkeypatch.setattr(os, "fsync", full if chunk == 2 else sync)
        write(folder, chunk, table)

    monkeypatch.setattr(SweepFolder, "write", filling)
    code, out, err = in_process("plan", file, "--where", tmp_path / "search")
    monkeypatch.undo()
    assert (code, out) == (1, "")
    assert f"'{tmp_path}/search': no space left on device" in err
    assert "2 of" in err
    assert len(pl.read_parquet(tmp_path / "search/parts/*.parquet")) == 2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--workers", "dask:127.0.0.1:1"), "--workers is 'dask:127.0.0.1:1'"),
        (("--workers", "ray:127.0.0.1:1"), "--workers is 'ray:127.0.0.1:1'"),
        (("--workers", "dusk"), "--workers is 'dusk'; allowed: local, ray or dask"),
        (("--where", "nowhere://x"), "'nowhere://x'"),
    ],
)
def test_what_is_not_there_is_named_with_its_option(file, in_process, given, sentence):
    code, out, err = in_process("plan", file, *given)
    assert (code, out) == (2, "")
    assert sentence in err


def test_another_search_in_the_same_folder_is_refused(file, tmp_path, in_process):
    assert in_process("plan", file, "--where", tmp_path / "search")[0] == 0
    code, out, err = in_process("plan", file, "--objective", "memory", "--where", tmp_path / "search")
    assert (code, out) == (2, "")
    assert "search" in err


@pytest.mark.slow
def test_ctrl_c_at_a_terminal_ends_the_workers_too(file, tmp_path):
    command = [sys.executable, "-m", "sightline", "plan", str(file), "--workers", "local:2", "--where", "search"]
    wide = ["--set", "cluster=1024x a100-sxm-80gb", "--set", "workload.global_batch=1024", "--json"]
    free = [word for key in ("context_parallel", "virtual_stages") for word in ("--set", f"plan.{key}={{any: [1, 2]}}")]
    # A group of its own stands for the terminal's, which gets the signal whole.
    with subprocess.Popen(
        [*command, *wide, *free],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        until(lambda: process.poll() is not None or list((tmp_path / "search").glob("parts/*.parquet")))
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 130), err
    assert json.loads(out)["plans"]
    assert "Traceback" not in err
