import json
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest

from sightline import catalog
from sightline.loading import load, scenario_from_mapping, to_mapping
from sightline.scenario import GenerationScenario, Scenario

EXAMPLE: dict[str, Any] = {
    "name": "x",
    "model": "llama-2-7b",
    "cluster": {"devices": "16x a800-sxm-80gb", "power_cap": "300 W", "host": {"launch_time": "6 us"}},
    "workload": {"task": "finetune", "sequence_length": 350, "global_batch": 16, "total_tokens": 2e12},
    "plan": {"framework": "megatron", "framework_version": "0.12", "pipeline_parallel": 2, "virtual_stages": 2},
    "measured": {"step_time_s": 1.5, "source": "somebody"},
}


DEEPSPEED: dict[str, Any] = {key: EXAMPLE[key] for key in ("model", "cluster", "workload")}


def again(scenario: Scenario) -> Scenario:
    loaded = load(json.dumps(to_mapping(scenario)))
    assert isinstance(loaded, Scenario)
    return loaded


def test_a_written_scenario_loads_as_the_same() -> None:
    scenario = scenario_from_mapping(EXAMPLE)
    loaded = again(scenario)
    assert loaded.model == scenario.model
    assert loaded.workload == scenario.workload
    assert loaded.plan.framework == scenario.plan.framework
    assert loaded.plan.to_dict() == scenario.plan.to_dict()
    assert (loaded.name, loaded.measured) == (scenario.name, scenario.measured)
    assert to_mapping(loaded) == to_mapping(scenario)


@pytest.mark.parametrize("name", catalog.names("models"))
def test_every_model_survives(name: str) -> None:
    workload = {"task": "generate", "batch": 1, "prompt_tokens": 1, "output_tokens": 1}
    scenario = load({"model": name, "cluster": "1x b200-sxm-180gb", "workload": workload})
    loaded = load(json.dumps(to_mapping(scenario)))
    assert isinstance(scenario, GenerationScenario)
    assert isinstance(loaded, GenerationScenario)
    assert loaded.model == scenario.model


def test_what_it_shows() -> None:
    shown = to_mapping(scenario_from_mapping(EXAMPLE))
    assert shown["model"]["num_hidden_layers"] == 32
    assert (shown["cluster"]["devices"], shown["cluster"]["power_cap"]) == (16, 300.0)
    assert shown["cluster"]["host"]["launch_time"] == 6e-6
    assert (shown["plan"]["framework"], shown["plan"]["framework_version"]) == ("megatron", "0.12")
    assert (shown["plan"]["data_parallel"], shown["plan"]["schedule"]) == (8, "interleaved")
    assert "micro_batch" not in shown["plan"]
    assert shown["workload"]["task"] == "finetune"


def test_a_version_keeps_the_zero_at_its_end() -> None:
    (tenth,) = load(EXAMPLE, sweeps=["plan.framework_version=0.10"])
    assert tenth.plan.framework.version == "0.10"
    first, last = load(EXAMPLE, sweeps="plan.framework_version=0.10, 2025-09")
    assert (first.plan.framework.version, last.plan.framework.version) == ("0.10", "0.14")
    assert load(EXAMPLE, ["plan.framework_version=0.10"]).plan.framework.version == "0.10"


def test_arrays_become_lists() -> None:
    scenario = scenario_from_mapping(EXAMPLE)
    plan = replace(scenario.plan, micro_batch=np.array([1, 2]), zero_stage=np.int64(1))
    shown = to_mapping(replace(scenario, plan=plan))
    assert shown["plan"]["micro_batch"] == [1, 2]
    assert json.loads(json.dumps(shown)) == shown


def test_dates_and_numbers_are_versions_in_python_too() -> None:
    for version, line in ((date(2024, 6, 1), "0.14"), (0.15, "0.15")):
        loaded = load(DEEPSPEED | {"plan": {"framework": "deepspeed", "framework_version": version}})
        assert isinstance(loaded, Scenario)
        assert loaded.plan.framework.version == line


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.12.3", "0.12.3 is read as deepspeed release line 0.1, which started in 2020-02"),
        ("0.14.2", ""),
        ("0.17", "0.17 is read as deepspeed release line 0.15, which started in 2024-08, the newest "),
        ("0.15.1", ""),
        ("0.1", ""),
    ],
)
def test_a_release_of_another_numbers_line_says_so(version: str, said: str) -> None:
    loaded = load(DEEPSPEED | {"plan": {"framework": "deepspeed", "framework_version": version}})
    assert isinstance(loaded, Scenario)
    found = [warning for warning in loaded.warnings if "framework_version" in warning]
    assert [said in warning for warning in found] == [True] * bool(said)
