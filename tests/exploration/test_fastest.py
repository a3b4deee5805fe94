"""The fastest plan of a scenario of training."""

import pytest

from sightline.errors import InputError
from sightline.exploration.base import fastest, fastest_if_any
from sightline.progress import SILENT, Cancelled, Progress

SCENARIO = {
    "model": "llama-2-7b",
    "cluster": {"devices": "8x a100-sxm-80gb"},
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 64},
    "plan": {"framework": "reference", "dtype": "bf16", "zero_stage": 2},
}


def test_a_wider_search_is_never_slower():
    few = fastest(SCENARIO, {"recompute": ("full",), "micro_batch": None}, SILENT)
    more = fastest(SCENARIO, {"recompute": ("none", "full"), "micro_batch": None, "tensor_parallel": None}, SILENT)
    assert few.fits
    assert more.fits
    assert more.step_time_s <= few.step_time_s
    assert few.scenario.plan.recompute == "full"


def test_what_is_stated_is_not_searched():
    found = fastest(SCENARIO, {"micro_batch": (1, 2), "tensor_parallel": (2, 4)}, SILENT).scenario.plan
    assert found.zero_stage == 2
    assert found.micro_batch in (1, 2)
    assert found.tensor_parallel in (2, 4)


def test_nothing_that_fits_is_said():
    large = {**SCENARIO, "model": "gpt-3-175b", "cluster": {"devices": "8x rtx-4090"}}
    with pytest.raises(InputError, match="no plan for gpt-3-175b fits on 8x rtx-4090"):
        fastest(large, {"micro_batch": (1,), "recompute": ("none", "full")}, SILENT)
    assert fastest_if_any(large, {"micro_batch": (1,), "recompute": ("none", "full")}, SILENT) is None


def test_without_fields_all_that_is_open_is_searched():
    few, all_open = fastest(SCENARIO, {"micro_batch": None}, SILENT), fastest_if_any(SCENARIO, None, SILENT)
    assert all_open.step_time_s <= few.step_time_s
    assert all_open.scenario.plan.zero_stage == 2


def test_a_search_can_be_stopped():
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        fastest(SCENARIO, {"micro_batch": None}, progress)
