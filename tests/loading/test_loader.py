from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading import load, to_mapping
from sightline.loading.checks import with_value
from sightline.scenario import Scenario

BASE: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": "8x a800-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 350, "global_batch": 64},
    "plan": {"framework": "deepspeed"},
}
SWEEP = BASE | {"sweep": {"plan.micro_batch": [1, 2], "plan.zero_stage": [2, 3]}}


def plans(source: object, *keys: str, **options: Any) -> list[tuple[Any, ...]]:
    scenarios = load(source, **options)
    assert isinstance(scenarios, list)
    return [tuple(getattr(s.plan, k) for k in keys) for s in scenarios]


def one(source: object, **options: Any) -> Scenario:
    scenario = load(source, **options)
    assert isinstance(scenario, Scenario)
    return scenario


def problems(source: object, **options: Any) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        load(source, **options)
    return caught.value.problems


def test_a_sweep_is_the_product_in_order() -> None:
    assert plans(SWEEP, "micro_batch", "zero_stage") == [(1, 2), (1, 3), (2, 2), (2, 3)]


def test_a_sweep_of_one_value_is_a_list() -> None:
    assert plans(BASE, "micro_batch", sweeps=["plan.micro_batch=4"]) == [(4,)]


def test_sweeps_of_the_command_line_come_last() -> None:
    swept = plans(
        BASE | {"sweep": {"plan.zero_stage": [2, 3]}}, "zero_stage", "micro_batch", sweeps=["plan.micro_batch=1,2"]
    )
    assert swept == [(2, 1), (2, 2), (3, 1), (3, 2)]
    assert plans(BASE, "recompute", sweeps=["plan.recompute=[none, full]"]) == [("none",), ("full",)]
    assert plans(BASE, "zero_stage", sweeps={"plan.zero_stage": (1, 2)}) == [(1,), (2,)]


def test_sweeping_names_and_parts() -> None:
    scenarios = load(BASE, sweeps=["cluster=8x a800-sxm-80gb,16x h100-sxm-80gb"])
    assert isinstance(scenarios, list)
    assert [s.cluster.devices for s in scenarios] == [8, 16]
    scenarios = load(BASE, sweeps=["cluster.device.memory_bandwidth=1 TB/s,2 TB/s", "model.num_hidden_layers=8,16"])
    assert isinstance(scenarios, list)
    found = [(s.cluster.device.memory_bandwidth, s.model.layers) for s in scenarios]
    assert found == [(1e12, 8), (1e12, 16), (2e12, 8), (2e12, 16)]


def test_overrides() -> None:
    assert one(BASE, overrides=["plan.zero_stage=3", "workload.total_tokens=2e12"]).plan.zero_stage == 3
    assert one(BASE, overrides={"plan.zero_stage": 1}).plan.zero_stage == 1
    assert one(BASE, overrides=["name=a = b: c"]).name == "a = b: c"
    assert one(BASE, overrides=["cluster.network.latency=9 us"]).cluster.network.latency_s == 9e-6
    assert one(BASE, overrides=["model.vocab_size=32768"]).model.vocab_size == 32768
    assert one(BASE, overrides=["plan.micro_batch="]).plan.micro_batch is None


def test_overriding_a_swept_key_fixes_it() -> None:
    assert plans(SWEEP, "micro_batch", "zero_stage", overrides=["plan.micro_batch=8"]) == [(8, 2), (8, 3)]
    assert plans(SWEEP, "micro_batch", "zero_stage", overrides=["sweep.plan.micro_batch=[4]"]) == [(4, 2), (4, 3)]
    assert plans(SWEEP, "micro_batch", "zero_stage", overrides=["sweep={plan.micro_batch: [4]}"]) == [(4, 2), (4, 3)]


def test_the_source_is_left_alone() -> None:
    before = repr(SWEEP)
    load(SWEEP, overrides=["plan.dtype=fp16"])
    assert repr(SWEEP) == before
    assert with_value({"a": {"b": 1}, "c": [1]}, "a.b", 2) == {"a": {"b": 2}, "c": [1]}


def test_a_problem_of_all_swept_scenarios_is_said_once() -> None:
    assert problems(SWEEP | {"typo": 1}) == (
        "typo is not a known key; known keys: name, model, cluster, workload, plan, measured, unread",
    )
    assert len(problems(BASE, sweeps=["plan.micro_batch=1,3,5"])) == 2


@pytest.mark.parametrize(
    ("task", "hint"),
    [("serving", " - did you mean 'serve'?"), ("inference", " - did you mean 'generate'?"), ("dance", ""), ([1], "")],
)
def test_of_an_unknown_task_nothing_else_is_said(task: object, hint: str) -> None:
    said = problems(BASE, overrides={"workload.task": task, "workload.batch": 3})
    written = f"'{task}'" if isinstance(task, str) else str(task)
    assert said == (f"workload.task is {written}; allowed: pretrain, finetune, generate, serve, operator{hint}",)


def test_an_engine_is_no_framework_of_training() -> None:
    (said,) = problems(BASE, overrides={"plan.framework": "vllm"})
    assert said.startswith("plan.framework is 'vllm' (use it with workload.task generate); allowed: deepspeed, fsdp")
    assert "did you mean" not in said


@pytest.mark.parametrize(
    ("sweep", "sentence"),
    [
        (3, "sweep is 3"),
        ({"plan.micro_batch": 3}, "sweep.plan.micro_batch is 3"),
        ({"plan.micro_batch": []}, "sweep.plan.micro_batch is []"),
        ({"plan": {"micro_batch": [1]}}, "sweep.plan is {'micro_batch': [1]}"),
        ({1: [1]}, "sweep.1 is [1]"),
        ({"plan.micro_bach": [1]}, "plan.micro_bach is not a known key - did you mean 'micro_batch'?"),
        ({f"plan.x{n}": list(range(100)) for n in range(20)}, "scenarios"),
        ({"workload.task.x": [1]}, "workload.task.x cannot be set"),
        ({"plan..x": [1]}, "'plan..x' is not a key"),
        ({"x." * 5000 + "x": [1]}, "is not a key"),
    ],
)
def test_bad_sweeps(sweep: Any, sentence: str) -> None:
    assert sentence in problems(BASE | {"sweep": sweep})[0]


@pytest.mark.parametrize("argument", ["plan.micro_batch", "=3", "", 3])
def test_arguments_need_a_key_and_a_value(argument: Any) -> None:
    sentence = "is not KEY=VALUE"
    assert sentence in problems(BASE, overrides=[argument])[0]
    assert sentence in problems(BASE, sweeps=[argument])[0]


def test_arguments_that_are_no_yaml() -> None:
    assert problems(BASE, overrides=["plan.micro_batch=[1"])[0].startswith("plan.micro_batch=[1: not valid YAML")
    assert problems(BASE, sweeps=["plan.micro_batch=1,]"])[0].startswith("plan.micro_batch=")


def test_a_single_override_needs_no_list() -> None:
    assert load(BASE, "plan.zero_stage=1").plan.zero_stage == 1


def test_a_sweep_may_be_a_range() -> None:
    assert [s.plan.zero_stage for s in load(BASE, sweeps={"plan.zero_stage": range(3)})] == [0, 1, 2]


@pytest.mark.parametrize(
    ("overrides", "sweeps", "named"),
    [({5: 1}, (), "override 5"), ((), {"plan.zero_stage": 3}, "plan.zero_stage"), ((), {5: [1]}, "5")],
)
def test_wrong_ones_are_sentences(overrides, sweeps, named) -> None:
    with pytest.raises(InputError, match=named):
        load(BASE, overrides, sweeps)


@pytest.mark.parametrize(
    "answer", [{"source": "measured", "step_time_s": 1.0}, {"id": "20260102-030405", "result": {}}]
)
def test_a_result_and_a_run_stand_for_the_scenario_that_they_answer(answer: dict[str, Any]) -> None:
    asked = one(answer | {"scenario": BASE | {"measured": {"step_time_s": 1.0}}})
    assert to_mapping(asked) == to_mapping(one(BASE))


def test_a_scenario_within_anything_else_is_an_unknown_key() -> None:
    with pytest.raises(InputError, match="scenario is not a known key"):
        load({"scenario": BASE})
