"""Processors without AVX-512, as far as libraries can be told to do without it, answer alike."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

EXAMPLES = Path(__file__).parents[2] / "examples"
WIDE = [name for name in __cpu_dispatch__ if __cpu_features__.get(name) and ("512" in name or name == "X86_V4")]
"""What NumPy uses here and can be told to leave alone."""
OLDER = {"NPY_DISABLE_CPU_FEATURES": " ".join(WIDE), "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""}


def answered(environment, *words):
    command = [sys.executable, "-m", "sightline", *map(str, words), "--json"]
    answer = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=True, timeout=600
    )
    found = json.loads(answer.stdout)
    return {key: value for key, value in found.items() if isinstance(value, int | float)}


@pytest.mark.slow
@pytest.mark.skipif(not WIDE, reason="this processor has no AVX-512")
@pytest.mark.parametrize(
    "words",
    [
        ("predict", EXAMPLES / "llama-2-7b-zero2-8xa800.yaml"),
        ("predict", EXAMPLES / "llama-2-70b-generate-4xh100.yaml"),
        ("plan", EXAMPLES / "plans" / "llama-3.1-8b-rtx-4090.yaml"),
        ("simulate", EXAMPLES / "serving" / "llama-3.1-8b-h100.yaml", "--set", "workload.requests.count=50"),
    ],
    ids=lambda words: words[0],
)
def test_answers_need_no_avx_512(words):
    expected, found = answered({}, *words), answered(OLDER, *words)
    expected.pop("seconds", None)
    assert len(expected) >= 3
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-9)
