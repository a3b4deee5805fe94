"""Suites of engines under load: what a log says, and a run that goes as simulated has no error."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.simulation.load import Requests
from sightline.validation.evaluation import validate
from sightline.validation.serving import (
    FIRST,
    RATE,
    anchored_on_requests,
    anchored_on_runs,
    answered_per_s,
    figure_of,
    measured_figure,
    serving_suites,
)
from sightline.validation.serving.vllm import (
    CLIENTS,
    COLD_REQUESTS,
    FIGURES,
    LOG,
    SETTINGS,
    llmservingsim_log,
    vllm_figures,
    vllm_logs,
    vllm_saturated,
)

RUN = {
    "model": "Qwen/Qwen3-14B",
    "hardware": "H100-SXM-80GB",
    "n_gpus": "1",
    "tp": "1",
    "vllm_version": "0.23.0 (stock)",
    "max_num_batched_tokens": "8192",
    "max_num_seqs": "128 (inferred)",
    "gpu_mem_util": "0.9",
    "kv_blocks_gpu": "18038",
    "block_size": "16",
    "n_requests": "30",
    "ep": "",
    "precision": "BF16",
    "prompt_tokens_nominal": "900",
    "output_tokens_forced": "64",
    "regime": "sub-saturated",
    "requests_csv": "requests/run.csv",
}
COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens", "prefix_id", "prefix_tokens", "first_token_s", "last_token_s")


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as out:
        table = csv.DictWriter(out, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def logged(
    folder: Path,
    requests: int = 30,
    shared: int = 0,
    given_up: int = 0,
    runs: int = 1,
    answer_s: float = 1.0,
    **changes: str,
) -> Path:
    """A data folder with equal logs, in which clients give up the last requests."""
    names = [f"requests/run{number or ''}.csv" for number in range(runs)]
    write(folder / "vllm_serving" / "experiments.csv", [{**RUN, "requests_csv": name} | changes for name in names])
    rows: list[dict[str, Any]] = [
        dict(zip(COLUMNS, (i * 0.2, 900, 64, i % 5, shared, i * 0.2 + 0.1, i * 0.2 + answer_s), strict=True))
        | {"ok": 1}
        for i in range(requests)
    ]
    for row in rows[requests - given_up :]:
        row |= {"output_tokens": "", "first_token_s": "", "last_token_s": row["arrival_s"] + 300.0, "ok": 0}
    for name in names:
        write(folder / "vllm_serving" / name, rows)
    return folder


def test_a_log_becomes_a_scenario_and_requests(tmp_path: Path) -> None:
    (run,) = vllm_logs(logged(tmp_path)).read()
    assert run.scenario["model"] == "qwen3-14b"
    assert run.scenario["plan"] == {
        "framework": "vllm",
        "framework_version": "0.23",
        "tensor_parallel": 1,
        "max_batched_tokens": 8192,
        "max_sequences": 128,
        "memory_fraction": 0.9,
    }
    assert run.kv_tokens == 18038 * 16
    assert run.counted.all()


def test_requests_of_a_cold_cache_do_not_count(tmp_path: Path) -> None:
    (run,) = vllm_logs(logged(tmp_path, requests=COLD_REQUESTS + 10, shared=900)).read()
    assert run.counted.sum() == 10


def test_saturated_runs_and_missing_logs_are_no_cases(tmp_path: Path) -> None:
    assert vllm_logs(logged(tmp_path, regime="overload")).runs == 0
    assert vllm_logs(tmp_path / "nothing").runs == 0
    assert serving_suites(None) == ()


def test_clients_that_are_held_back_are_a_closed_loop(tmp_path: Path) -> None:
    (run,) = vllm_saturated(logged(tmp_path, regime="saturated (client-capped)")).read()
    assert run.scenario["workload"]["arrival"] == {"process": "closed", "concurrency": CLIENTS}
    assert not run.requests.arrival_s.any()
    assert measured_figure(RATE, run) == pytest.approx(30 / (29 * 0.2 + 1.0))
    assert measured_figure("latency_s.mean", run) == pytest.approx(1.0)


def test_answers_count_until_a_client_gives_up(tmp_path: Path) -> None:
    folder = logged(tmp_path, requests=2000, given_up=1000, regime="overload")
    (run,) = vllm_saturated(folder).read()
    assert run.until_s == pytest.approx(1000 * 0.2 + 300.0)
    assert measured_figure(RATE, run) == pytest.approx(1000 / (999 * 0.2 + 1.0))
    assert (run.requests.output_tokens == 64).all()
    assert answered_per_s(np.array([1.0, 2.0, np.nan, 9.0]), until_s=4.0) == 1.0
    assert vllm_saturated(logged(tmp_path)).runs == 0


def test_the_first_run_on_a_device_teaches_and_is_no_case(tmp_path: Path) -> None:
    folder = logged(tmp_path, runs=2, answer_s=1.6)
    (log,) = anchored_on_runs(vllm_logs(folder))
    assert log.name == "serving-vllm-anchored-h100-sxm-80gb"
    results = validate(["serving-vllm-tpot-p50", f"{log.name}-tpot-p50"], data=folder)
    alone, anchored = (result.answers for result in results)
    assert [answer.case.scenario["name"] for answer in anchored] == ["run1"]
    assert abs(anchored[0].error or 9.0) < 0.5 * abs(alone[1].error or 0.0)
    assert anchored_on_runs(vllm_logs(logged(tmp_path / "one"))) == ()


def test_the_first_requests_of_a_single_run_teach_and_do_not_count(tmp_path: Path) -> None:
    log = anchored_on_requests(vllm_logs(logged(tmp_path, requests=FIRST + 10)))
    (run,) = log.read()
    assert run.known is not None
    assert run.counted.sum() == 10
    assert log.figures == vllm_logs(tmp_path).figures
    assert {log.goals[f"{time}.p90"] for time in ("ttft_s", "tpot_s", "latency_s")} == {"10 %"}


def stated(folder: Path, **changes: str) -> Path:
    """A data folder with a run of which the source states figures only."""
    told = {
        "experiment": "two stages",
        "window": "full",
        "stage": "all",
        "rate_per_s": "2+5",
        "duration_s": "20",
        "requests_csv": "",
        "kv_blocks_gpu": "",
        "precision": "FP8",
        "ep": "2 (stated)",
    }
    figures = dict.fromkeys(FIGURES.values(), "20.0")
    write(folder / "vllm_serving" / "experiments.csv", [RUN | told | figures | changes])
    return folder


def test_stated_figures_become_a_run_with_a_drawn_load(tmp_path: Path) -> None:
    (run,) = vllm_figures(stated(tmp_path)).read()
    arrival_s = run.requests.arrival_s
    assert len(arrival_s) == 2 * 10 + 5 * 10
    assert (np.diff(arrival_s) > 0).all()
    assert (arrival_s < 10.0).sum() == 20
    assert arrival_s.max() < 20.0
    assert run.kv_tokens is None
    assert measured_figure("ttft_s.mean", run) == 0.02
    assert run.scenario["plan"]["expert_parallel"] == 2
    assert run.scenario["plan"]["quantization"] == "fp8"
    assert set(run.requests.prefix_id) == set(range(70))


def test_runs_with_a_log_or_of_one_stage_are_no_stated_figures(tmp_path: Path) -> None:
    assert vllm_figures(stated(tmp_path, requests_csv="requests/run.csv")).runs == 0
    assert vllm_figures(stated(tmp_path, stage="0")).runs == 0
    assert vllm_figures(tmp_path / "nothing").runs == 0


def test_figures_are_of_the_counted_requests() -> None:
    requests = Requests(
        arrival_s=np.array([0.0, 1.0, 2.0]), prompt_tokens=np.array([9, 9, 9]), output_tokens=np.array([11, 11, 1])
    )
    first, last, counted = np.array([1.0, 3.0, 9.0]), np.array([2.0, 5.0, 9.0]), np.array([True, True, False])
    named = {name: figure_of(name, requests, first, last, counted) for name in ("ttft_s.mean", "tpot_s.p50")}
    assert named == pytest.approx({"ttft_s.mean": 1.5, "tpot_s.p50": 0.15})


def test_a_run_that_goes_as_simulated_has_no_error(tmp_path: Path) -> None:
    folder = logged(tmp_path)
    first = {result.quantity: result.answers[0].predicted for result in validate("serving-vllm*", data=folder)}
    from sightline.loading.serving import serving_from_mapping
    from sightline.simulation.simulate import simulate

    (run,) = vllm_logs(folder).read()
    outcome = simulate(serving_from_mapping(run.scenario), load=[run.requests], intervals=False).outcome
    log = folder / "vllm_serving" / "requests" / "run.csv"
    with log.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    for row, first_s, last_s in zip(rows, outcome.first_token_s, outcome.last_token_s, strict=True):
        row["first_token_s"], row["last_token_s"] = repr(float(first_s)), repr(float(last_s))
    write(log, rows)
    for result in validate("serving-vllm*", data=folder):
        (answer,) = result.answers
        assert (result.kind, result.split) == ("serving", "test")
        assert answer.predicted == pytest.approx(first[result.quantity])
        assert answer.error == pytest.approx(0.0, abs=1e-9)
        low, high = answer.interval or (0.0, 0.0)
        assert low <= answer.case.measured <= high


def test_settings_state_the_capacity_of_the_cache(tmp_path: Path) -> None:
    settings = {"nodes": [{"instances": [{"npu_mem": {"mem_size": 24, "mem_util": 0.833919}}]}]}
    row = {"request_id": "a", "input_tokens": 10, "output_tokens": 5, "queued_s": 0.5}
    write(tmp_path / LOG, [row | {"scheduled_s": 0.6, "first_token_s": 1.0, "last_token_s": 2.0}])
    (tmp_path / SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
    (run,) = llmservingsim_log(tmp_path).read()
    assert run.kv_tokens == pytest.approx(41_427, abs=1)
    assert run.requests.arrival_s.tolist() == [0.5]


def test_an_answer_of_one_token_has_no_say_in_the_time_per_further_token() -> None:
    requests = Requests(arrival_s=np.zeros(3), prompt_tokens=np.array([9, 9, 9]), output_tokens=np.array([11, 11, 1]))
    first, last = np.array([1.0, 3.0, 9.0]), np.array([2.0, 5.0, 9.0])
    assert figure_of("tpot_s.mean", requests, first, last, np.ones(3, bool)) == pytest.approx(0.15)
    refused = np.array([1.0, np.nan, 9.0])
    assert np.isnan(figure_of("tpot_s.mean", requests, refused, refused, np.ones(3, bool)))
