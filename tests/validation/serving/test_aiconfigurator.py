"""AIConfigurator's sample under its load: which rows are simulated, and the load and limits of each."""

import csv
from pathlib import Path

import numpy as np
import pytest

from sightline.validation.adapters import COLUMNS
from sightline.validation.cases import digest
from sightline.validation.evaluation import suites
from sightline.validation.serving import MeasuredRun, measured_figure
from sightline.validation.serving.aiconfigurator import (
    ONE_IN,
    TABLE,
    TOGETHER,
    aiconfigurator_pools,
    aiconfigurator_runs,
)

ROW = dict.fromkeys(COLUMNS, "") | {
    "silicon_data_source": "source_file=2025-11-20.csv; measured=2025-11-20T00:00:00Z",
    "backend": "vllm",
    "backend_version": "0.11.2",
    "model_path": "meta-llama/Llama-3.1-70B",
    "system": "h100_sxm",
    "precision": "fp8",
    "mode": "agg",
    "isl": "1024",
    "osl": "1024",
    "batch_size": "8",
    "tp_size": "8",
    "attention_dp_size": "1",
    "moe_tp_size": "1",
    "moe_ep_size": "1",
    "silicon_ttft_ms": "76",
    "silicon_tpot_ms": "9.4",
}


def named(devices: str) -> str:
    """A row's name that is among those simulated."""
    names = (f"run{number}_agg_c8_tp{devices}_ep1" for number in range(10_000))
    return next(name for name in names if digest([name]) % ONE_IN == 0)


def written(folder: Path, **changes: str) -> Path:
    """A data folder with one row."""
    row = ROW | changes
    row["id"] = named(row["tp_size"])
    path = folder / TABLE
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as out:
        table = csv.DictWriter(out, list(row))
        table.writeheader()
        table.writerow(row)
    return folder


def runs(folder: Path, **changes: str) -> list[MeasuredRun]:
    return list(aiconfigurator_runs(written(folder, **changes)).read())


def test_clients_begin_at_once_and_send_ten_requests_each(tmp_path: Path) -> None:
    (run,) = runs(tmp_path)
    assert run.scenario["workload"]["arrival"] == {"process": "closed", "concurrency": 8}
    assert len(run.requests) == 80
    assert not run.requests.arrival_s.any()
    for lengths in (run.requests.prompt_tokens, run.requests.output_tokens):
        assert lengths.min() >= int(0.8 * 1024)
        assert lengths.max() <= 1024
        assert np.unique(lengths).size > 1
    assert measured_figure("ttft_s.mean", run) == pytest.approx(0.076)
    assert measured_figure("tpot_s.mean", run) == pytest.approx(0.0094)


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-70B", "deepseek-ai/DeepSeek-R1"])
def test_a_run_is_of_the_part_that_its_row_is_of_elsewhere(tmp_path: Path, model: str) -> None:
    (run,) = runs(tmp_path, model_path=model)
    (suite,) = suites(tmp_path, [TOGETHER])
    assert [case.split for case in suite.cases] == [run.split]


def test_the_server_has_the_limits_of_its_script(tmp_path: Path) -> None:
    (run,) = runs(tmp_path)
    assert run.scenario["plan"]["max_batched_tokens"] == 8192
    assert run.scenario["plan"]["max_sequences"] == 8


@pytest.mark.parametrize(("day", "tokens"), [("2025-11-20", 1152), ("2026-02-20", 8192)])
def test_a_pass_had_room_for_one_prompt_until_a_day(tmp_path: Path, day: str, tokens: int) -> None:
    source = f"source_file=x.csv; measured={day}T00:00:00Z"
    r1 = {"backend": "trtllm", "model_path": "deepseek-ai/DeepSeek-R1", "system": "h200_sxm"}
    (run,) = runs(tmp_path, silicon_data_source=source, backend_version="1.2.0rc2", **r1)
    assert run.scenario["plan"]["max_batched_tokens"] == tokens


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "disagg"},
        {"silicon_data_source": "source_file=/data/aic-auto-gap-analysis/data/x.csv"},
        {"backend": "trtllm", "backend_version": "1.1", "tp_size": "4"},
        {"backend": "sglang", "model_path": "deepseek-ai/DeepSeek-R1", "system": "b200_sxm"},
    ],
)
def test_rows_whose_load_or_server_cannot_be_simulated_are_left_out(tmp_path: Path, changes: dict[str, str]) -> None:
    assert runs(tmp_path, **changes) == []


APART = {"mode": "disagg", "backend": "trtllm", "backend_version": "1.1", "isl": "500"} | {
    f"{pool}_{column}": number
    for pool, number in (("prefill", "1"), ("decode", "2"))
    for column in ("tp_size", "attention_dp_size", "moe_ep_size", "num_workers")
}
"""Of a deployment that nobody published, so that it is as its columns say."""


def test_pools_are_simulated_as_pools(tmp_path: Path) -> None:
    (run,) = aiconfigurator_pools(written(tmp_path, **APART)).read()
    assert run.scenario["plan"]["disaggregate"]["decode"]["replicas"] == 2
    assert run.scenario["plan"]["max_sequences"] == 8
    assert run.scenario["workload"]["arrival"] == {"process": "closed", "concurrency": 8}
    assert len(run.requests) == 80


def test_a_server_without_pools_is_none_of_those(tmp_path: Path) -> None:
    assert aiconfigurator_pools(written(tmp_path)).runs == 0


def test_a_folder_without_the_sample_has_no_runs(tmp_path: Path) -> None:
    assert aiconfigurator_runs(tmp_path).runs == 0
