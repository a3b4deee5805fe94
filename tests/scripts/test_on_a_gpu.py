"""The measurements on a GPU as one script, whose parts a stand-in for Python ends as it is told."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "on_a_gpu.sh"
PYTHON = """#!/bin/sh
case "$*" in
    *hardware_at_hand*) echo "$DEVICE" ;;
    "-c import deepspeed") exit 1 ;;
    *fsdp.yaml*) echo "out of paper"; exit 3 ;;
esac
"""


@pytest.fixture
def measured(tmp_path):
    """Run the script on a device; return its exit code, its lines and its folder."""

    def run(*options, device=""):
        python = tmp_path / "python"
        python.write_text(PYTHON)
        python.chmod(0o755)
        told = os.environ | {"PYTHON": str(python), "DEVICE": device}
        command = [SCRIPT, "--out", tmp_path / "out", *options]
        ended = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout.splitlines(), tmp_path / "out"

    return run


@pytest.mark.parametrize(("device", "cluster"), [("", "this-machine"), ("h200-sxm-141gb", "1x h200-sxm-141gb")])
def test_a_part_that_fails_stops_no_other_and_is_told(measured, device, cluster):
    code, lines, out = measured(device=device)
    assert code == 1
    ends = dict(line[9:].split(maxsplit=1) for line in lines if line[5:9] in (" s  ", "    "))
    assert ends["fsdp"] == "failed (3)"
    assert ends["deepspeed"].startswith("skipped")
    assert {ends[name] for name in ("transformers", "megatron", "recomputed", "implementations", "archive")} == {"done"}
    assert "out of paper" in lines
    assert f"cluster: {cluster}" in (out / "transformers.yaml").read_text().splitlines()


def test_a_dry_run_uses_no_gpu(measured):
    _, _, out = measured("--dry-run", device="h200-sxm-141gb")
    assert "cluster: this-machine" in (out / "generation.yaml").read_text()


def test_other_options_are_refused(measured):
    assert measured("--gpu")[0] == 2
