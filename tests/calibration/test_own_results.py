"""Results that this machine measured itself become its constants."""

import json

import pytest

from sightline.calibration.from_tables import calibrate, read_tables
from sightline.loading import load
from sightline.measurement.operators.operator_suite import KERNELS
from sightline.prediction import predict
from sightline.profile import Profile

LATENCY_S, SHARE = 4e-6, 0.6
"""Of an invented machine that reaches this share of its memory's bandwidth."""


def result(operator: str, elements: int) -> dict:
    scenario = load(
        {
            "cluster": "this-machine",
            "workload": {"task": "operator", "operator": operator, "elements": elements, "dtype": "fp32"},
        }
    )
    work = predict(scenario)
    seconds = LATENCY_S + work.bytes / (SHARE * scenario.cluster.device.memory_bandwidth)
    record = {"implementation": "fused", "repeats": 20}
    measured = Profile(
        scenario=scenario, source="measured", time_s=seconds, flops=work.flops, bytes=work.bytes, measurement=record
    )
    return measured.to_dict()


def test_the_constants_of_kernels_are_found(tmp_path) -> None:
    path = tmp_path / "operators.json"
    path.write_text(json.dumps([result(name, 2**power) for name in KERNELS for power in range(20, 28)]))
    (calibration,) = calibrate(read_tables([path], "this-machine"))
    assert (calibration.device, calibration.part) == ("this-machine", "elementwise")
    for kind in ("copy", "norm", "activation"):
        assert calibration.fit.constants[kind]["memory_fraction"] == pytest.approx(SHARE, rel=0.05)
        assert calibration.fit.residuals[kind]["fit"]["median"] < 0.02
