"""What bounds each matmul, by device."""

import numpy as np
import pytest

from sightline.errors import InputError
from sightline.exploration.base import StudyRequest
from sightline.exploration.studies.bound_by import A100, DEVICES, H100, LONG_PROMPT, study


@pytest.fixture(scope="module")
def answer():
    return study(StudyRequest())


def test_weights_of_long_prompts_are_compute_bound_and_decode_is_memory_bound(answer):
    for row in answer.rows:
        if row["device"] not in (A100, H100):
            continue
        if row["phase"] == "prefill" and row["prompt_tokens"] >= LONG_PROMPT and "mlp" in row["matmul"]:
            assert row["bound_level"] == "compute"
        if row["phase"] == "decode" and row["batch"] == 1:
            assert row["bound_level"] == "dram"


def test_what_memory_bounds_on_the_a100_it_bounds_on_the_h100(answer):
    share = answer.summary["memory_bound_share"]
    assert share[H100] > share[A100]
    assert answer.summary["memory_bound_on_h100_only"]
    assert not answer.summary["memory_bound_on_a100_only"]


def test_bound_follows_intensity_and_ridge_point(answer):
    columns = {name: np.asarray(values) for name, values in answer.columns.items()}
    compute = columns["bound_level"] == "compute"
    assert (compute <= (columns["intensity"] >= columns["ridge"])).all()
    assert (columns["calibrated_s"] >= columns["roofline_s"] * (1 - 1e-9)).all()


def test_devices_come_by_ridge_point(answer):
    ridges = list(answer.summary["ridge_flops_per_byte"].values())
    assert ridges == sorted(ridges)


def test_small_version_has_the_same_columns(answer):
    quick = study(StudyRequest(quick=True))
    assert list(quick.columns) == list(answer.columns)
    assert len(quick) < len(answer)
    assert list(quick.summary) == list(answer.summary)


def test_devices_without_the_number_format_are_left_out():
    found = study(StudyRequest(overrides={"plan.dtype": "nvfp4"}))
    assert found.axes["cluster.device"] == ["b200-sxm-180gb"]
    assert len(found.warnings) == len(DEVICES) - 1


def test_no_device_is_an_error():
    with pytest.raises(InputError, match=r"plan\.dtype"):
        study(StudyRequest(overrides={"plan.dtype": "fp17"}))


def test_one_view_is_told_that_rows_have_both():
    assert not study(StudyRequest(quick=True, view="both")).warnings
    assert "view ideal" in study(StudyRequest(quick=True, view="ideal")).warnings[0]
