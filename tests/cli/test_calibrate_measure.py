"""``sightline calibrate --measure``: a suite run here, fitted and written; what contradicts itself is refused."""

import json
from dataclasses import replace

import pytest

from sightline.calibration.processor import small_models
from sightline.measurement import calibrate
from sightline.measurement.operators import operator_suite
from sightline.measurement.processes.cases import QUICK


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "--from-run RUN"),
        (("--measure", "--from-run", "latest"), "--from-run RUN"),
        (("--measure", "--device", "h100-sxm-80gb"), "--device is 'h100-sxm-80gb'"),
        (("--from", "x.csv"), "--device is required"),
        (("--from-run", "nothing-like-it"), "no run 'nothing-like-it'"),
        (("--measure", "--dtype", "fp23"), "--dtype is 'fp23'"),
    ],
)
def test_requests_that_cannot_be_met(in_process, tmp_path, arguments, sentence) -> None:
    code, _, err = in_process(
        "calibrate", *arguments, "--out", tmp_path, *(("--store", tmp_path) if "--from" not in arguments else ())
    )
    assert (code, sentence in err) == (2, True), err


@pytest.mark.slow
def test_the_loop_from_measuring_to_a_prediction(in_process, tmp_path, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))
    shapes = ((64, 64), (64, 128), (128, 64), (96, 96), (128, 128), (64, 192), (192, 64), (128, 192), (192, 128))
    sizes = {"weights": shapes[::2], "tokens": (1, 8, 64), "contexts": (4,), "heads": ((4, 4, 16), (8, 4, 64))}
    # As few as can be fitted: each operator is a process of its own.
    elements = tuple(2**power for power in (8, 11, 13, 15))
    monkeypatch.setattr(
        operator_suite, "PROCESSOR_QUICK", replace(operator_suite.PROCESSOR_QUICK, **sizes, elements=elements)
    )
    # And as few steps: each process of the small models would run a hundred, of which that out of caches takes longest.
    monkeypatch.setattr(calibrate, "SETTINGS", replace(calibrate.SETTINGS, effort=QUICK))
    cold = small_models.MODELS[small_models.COLD]
    small = {**cold, "tokens": 16, "samples": 1, "keys": {**cold["keys"], "num_hidden_layers": 2}}
    monkeypatch.setattr(small_models, "MODELS", {**small_models.MODELS, small_models.COLD: small})
    code, out, err = in_process("calibrate", "--measure", "--quick", "--out", tmp_path / "catalog", "--json")
    assert code == 0, err
    parts = {said["part"] for said in json.loads(out)}
    assert {"processor", "training"} <= parts
    assert (tmp_path / "catalog" / "devices" / "this-machine.yaml").is_file()
    code, _, err = in_process("calibrate", "--measure", "--quick", "--out", tmp_path / "catalog")
    assert code == 2
    assert "--force" in err
