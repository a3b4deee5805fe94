"""Latency of generation by memory technology."""

import numpy as np
import pytest

from sightline.errors import InputError
from sightline.exploration.base import StudyRequest
from sightline.exploration.studies.dram import CASES, SECONDS, study
from sightline.progress import Cancelled, Progress

VIEWS = ("ideal", "calibrated")


@pytest.fixture(scope="module")
def answer():
    return study(StudyRequest())


def _of(answer, model, view):
    rows = [row for row in answer.rows if (row["model"], row["view"]) == (model, view)]
    return sorted(rows, key=lambda row: row["bandwidth"])


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("model", [case.model for case in CASES])
def test_latency_falls_with_bandwidth_and_flattens_after_the_knee(answer, model, view):
    rows = _of(answer, model, view)
    latency = np.array([row["latency_s"] for row in rows])
    assert (np.diff(latency) <= latency[:-1] * 1e-9).all()
    knee = answer.summary["knee"][view][model]
    assert rows[0]["bandwidth"] < knee["bandwidth"] < rows[-1]["bandwidth"]
    assert answer.summary["gain_beyond_knee"][view][model] < 1.2 < answer.summary["gain_to_knee"][view][model]


@pytest.mark.parametrize("model", [case.model for case in CASES])
def test_knee_of_the_ideal_view_lies_at_the_bandwidth_of_l2(answer, model):
    knee = answer.summary["knee"]["ideal"][model]
    assert knee["level"] == "l2"
    assert knee["bandwidth"] == pytest.approx(4.8e12, rel=0.02)
    assert {row["bound_level"] for row in _of(answer, model, "ideal")} == {"dram", "l2"}


def test_links_bind_next_where_devices_share_the_model(answer):
    alone, split = (answer.summary["knee_if_l2_kept_up"]["ideal"][case.model] for case in CASES)
    assert alone is None
    assert split["level"] == "network"


def test_levels_sum_to_the_latency(answer):
    for row in answer.rows:
        assert sum(row[name] for name in SECONDS) == pytest.approx(row["latency_s"])


def test_one_view_and_the_small_version(answer):
    quick = study(StudyRequest(quick=True, view="ideal"))
    assert list(quick.columns) == list(answer.columns)
    assert set(quick.columns["view"]) == {"ideal"}
    for case in CASES:
        knees = (found.summary["knee"]["ideal"][case.model] for found in (quick, answer))
        assert next(knees)["bandwidth"] == pytest.approx(next(knees)["bandwidth"], rel=0.06)


@pytest.mark.parametrize(
    ("settings", "cases"),
    [
        ({"model": "llama-2-7b"}, [("llama-2-7b", 1)]),
        ({"model": "llama-2-70b"}, [("llama-2-70b", 2)]),
        ({"model": {"same_as": "llama-2-7b"}, "plan.tensor_parallel": 4}, [("llama-2-7b", 4)]),
        ({"plan.tensor_parallel": 8}, [("llama-2-13b", 8), ("llama-2-70b", 8)]),
    ],
)
def test_a_model_that_is_set_runs_on_the_fewest_devices_or_on_those_that_are_set(settings, cases):
    found = study(StudyRequest(quick=True, view="ideal", overrides=settings))
    assert list(dict.fromkeys((row["model"], row["devices"]) for row in found.rows)) == cases
    assert any(f"{model} on {count}" in said for model, count in cases for said in found.assumptions)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": "megatron-1t"}, "model megatron-1t does not fit on a node of 8 a100-sxm-80gb"),
        ({"model": "llama-2-7bb"}, "model is 'llama-2-7bb'"),
        ({"plan.tensor_parallel": 3}, "tensor_parallel is 3"),
    ],
)
def test_a_model_that_cannot_run_is_a_sentence(settings, said):
    with pytest.raises(InputError, match=said):
        study(StudyRequest(quick=True, overrides=settings))


def test_where_the_memory_never_binds_it_is_not_said_to():
    prompts = {"workload.prompt_tokens": 8000, "workload.output_tokens": 1}
    found = study(StudyRequest(quick=True, view="ideal", overrides=prompts))
    assert set(found.columns["bound_level"]) == {"compute"}
    for line in found.reading:
        assert "memory is the bottleneck throughout" not in line
        assert "the order is arithmetic units" in line


def test_a_study_that_is_stopped_returns_the_curves_so_far():
    progress = Progress(lambda state: progress.cancel() if state.done == 1 else None, every_s=0.0)
    found = study(StudyRequest(quick=True, progress=progress))
    assert {(row["model"], row["view"]) for row in found.rows} == {(CASES[0].model, "ideal")}
    assert len(found.reading) == 1
    with pytest.raises(Cancelled):
        study(StudyRequest(quick=True, progress=progress))
