from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sightline import catalog
from sightline.errors import InputError
from sightline.frameworks import read_framework
from sightline.loading import load, scenario_from_mapping, to_mapping
from sightline.loading.checks import with_value
from sightline.scenario import Finetune, Plan, Pretrain, Scenario

EXAMPLE: dict[str, Any] = {
    "name": "Llama-2-7B, ZeRO-2, 8 x A800",
    "model": "llama-2-7b",
    "cluster": "8x a800-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 350, "global_batch": 16},
    "plan": {"framework": "deepspeed", "zero_stage": 2, "micro_batch": 2},
}
MEGATRON = {"framework": "megatron"}


def scenario(**changes: Any) -> Scenario:
    """The example with dotted keys changed; a dot is written as two underscores."""
    mapping = EXAMPLE
    for key, value in changes.items():
        mapping = with_value(mapping, key.replace("__", "."), value)
    return scenario_from_mapping(mapping)


def problems(**changes: Any) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        scenario(**changes)
    return caught.value.problems


def test_the_example() -> None:
    read = scenario()
    assert (read.name, read.model.name, read.cluster.name) == (EXAMPLE["name"], "llama-2-7b", "8x a800-sxm-80gb")
    assert read.workload == Pretrain(sequence_length=350, global_batch=16)
    assert (read.plan.framework.name, read.plan.zero_stage, read.plan.micro_batch) == ("deepspeed", 2, 2)
    assert read.warnings == ()


def test_defaults() -> None:
    read = scenario(plan=None)
    assert read.plan.framework.name == "megatron"
    assert (read.plan.data_parallel, read.plan.tensor_parallel, read.plan.dtype) == (8, 1, "bf16")
    assert read.plan.micro_batch is None
    assert scenario(plan={"framework": "fsdp"}).plan.zero_stage == 3


def test_data_parallel_is_what_is_left() -> None:
    assert scenario(plan=MEGATRON | {"tensor_parallel": 2, "pipeline_parallel": 2}).plan.data_parallel == 2


def test_virtual_stages_mean_the_interleaved_schedule() -> None:
    plan = MEGATRON | {"pipeline_parallel": 2, "virtual_stages": 2}
    assert scenario(plan=plan).plan.schedule == "interleaved"
    assert scenario(plan=plan | {"schedule": "1f1b"}).plan.schedule == "interleaved"
    assert problems(plan=plan | {"schedule": "gpipe"})[0].startswith(
        "plan.schedule is 'gpipe' with plan.virtual_stages 2"
    )


def test_finetune_and_total_tokens() -> None:
    read = scenario(workload__task="finetune", workload__total_tokens=2e12)
    assert read.workload == Finetune(sequence_length=350, global_batch=16, total_tokens=2e12)


def test_framework_versions() -> None:
    old = scenario(plan=MEGATRON | {"framework_version": "2022-05"}).plan.framework
    assert (old.version, old.overlap.gradients) == ("2022", False)
    newest = scenario(plan=MEGATRON).plan.framework
    assert (newest.version, newest.overlap.gradients) == (read_framework("megatron", "2026-11").version, True)


def test_neutral_values_of_what_is_not_predicted_yet() -> None:
    neutral: dict[str, Any] = {"context_parallel": 1, "expert_parallel": 1, "offload": "none", "quantization": ["none"]}
    plan = neutral | {"adapter": "none", "compile": False, "optimizer": "adamw", "offload": []}
    assert scenario(plan=plan).plan.optimizer == "adamw"


def test_kept_not_refused() -> None:
    # kv_heads < tensor_parallel, uneven stages, a batch as small as the ranks, a long sequence.
    read = scenario(
        model="llama-2-70b",
        cluster="48x a800-sxm-80gb",
        plan=MEGATRON | {"tensor_parallel": 16, "pipeline_parallel": 3},
        workload__sequence_length=5000,
        workload__global_batch=1,
    )
    assert read.model.kv_heads == 8
    assert read.warnings == ("workload.sequence_length 5000 exceeds the 4096 tokens llama-2-70b was trained for",)


def test_measured_is_kept() -> None:
    measured = {"step_time_s": 1.1, "memory_bytes": {"total": 3e9}, "fits": True, "source": "x"}
    assert scenario(measured=measured).measured == measured


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"modle": "x"}, "modle is not a known key - did you mean 'model'?"),
        ({"model": None}, "model is missing"),
        ({"cluster": None}, "cluster is missing"),
        ({"workload": None}, "workload is missing"),
        ({"workload": 3}, "workload is 3"),
        ({"plan": "megatron"}, "plan is 'megatron'"),
        ({"workload__task": None}, "workload.task is missing; needed: pretrain, finetune"),
        (
            {"workload__task": "pretrian"},
            "workload.task is 'pretrian'; allowed: pretrain, finetune, generate, serve, operator - did you mean 'pretrain'?",
        ),
        (
            {"workload__task": "serv"},
            "workload.task is 'serv'; allowed: pretrain, finetune, generate, serve, operator - did you mean 'serve'?",
        ),
        ({"workload__seq_length": 1}, "workload.seq_length is not a known key - did you mean 'sequence_length'?"),
        (
            {"workload__lengths": {"distribution": "lognorm", "mean": 5, "deviation": 2}},
            "workload.lengths.distribution is 'lognorm'; allowed: lognormal, normal, uniform, empirical - did you mean",
        ),
        (
            {"workload__lengths": {"distribution": "normal", "mean": 5}},
            "workload.lengths.deviation is missing; needed:",
        ),
        (
            {"workload__lengths": {"distribution": "normal", "mean": 9, "deviation": 1, "max": 5}},
            "workload.lengths.mean is 9",
        ),
        (
            {"workload__lengths": {"distribution": "normal", "mean": 10**6, "deviation": 1}},
            "workload.lengths.mean is 1e+06",
        ),
        (
            {"workload__lengths": {"distribution": "uniform", "low": 9, "high": 5}},
            "workload.lengths.low is 9",
        ),
        (
            {"workload__lengths": {"distribution": "uniform", "low": 1, "high": 5, "mean": 3}},
            "workload.lengths.mean does not apply",
        ),
        (
            {"workload__lengths": [100, 0]},
            "workload.lengths.values has 0",
        ),
        ({"workload__lengths": "long"}, "workload.lengths is 'long'"),
        (
            {"model": "deepseek-v3.2", "workload__lengths": 300, "plan": {"framework": "reference"}},
            "deepseek-v3.2 has sparse attention",
        ),
        ({"workload__packing": True}, "workload.lengths is missing"),
        ({"workload__sequence_length": 0}, "workload.sequence_length is 0"),
        ({"workload__sequence_length": 1.5}, "workload.sequence_length is 1.5"),
        ({"workload__sequence_length": True}, "workload.sequence_length is true"),
        ({"workload__global_batch": "16"}, "workload.global_batch is '16'"),
        (
            {"workload__global_batch": 10**10},
            "workload.global_batch is 10000000000",
        ),
        (
            {"workload__total_tokens": "2 TB"},
            "workload.total_tokens is '2 TB'",
        ),
        ({"plan__tensor_paralel": 2}, "plan.tensor_paralel is not a known key - did you mean 'tensor_parallel'?"),
        ({"plan__zero_stage": 5}, "plan.zero_stage is 5; allowed: 0, 1, 2, 3"),
        ({"plan__zero_stage": True}, "plan.zero_stage is true; allowed: 0, 1, 2, 3"),
        ({"plan__recompute": "ful"}, "plan.recompute is 'ful'; allowed: none, selective, full, core_attention"),
        ({"plan__sequence_parallel": "off"}, "plan.sequence_parallel is 'off'; allowed: true, false"),
        ({"plan__dtype": "bf61"}, "did you mean 'bf16'?"),
        ({"plan__dtype": "int8"}, "plan.dtype is 'int8'"),
        ({"plan__framework": "megatrn"}, "plan.framework is 'megatrn'; allowed: deepspeed, fsdp, galvatron, "),
        (
            {"plan__framework_version": "2019"},
            "plan.framework_version is '2019'",
        ),
        (
            {"plan": MEGATRON | {"framework_version": "cor"}},
            "plan.framework_version is 'cor'; megatron: allowed: 2019, 2022, 0.2",
        ),
        (
            {"plan__context_parallel": 4, "plan__context_exchange": "all-gather"},
            "plan.context_exchange is 'all-gather'",
        ),
        (
            {"plan__context_parallel": 4, "plan__context_exchange": "all2all"},
            "plan.context_exchange is 'all2all'; allowed: ring, all-gather, all-to-all, mixed",
        ),
        (
            {"plan": {"context_parallel": 2, "attention": "eager"}},
            "plan.attention is eager with plan.context_parallel 2",
        ),
        (
            {"plan": {"context_parallel": 2}, "model": "mistral-7b-v0.1", "workload__sequence_length": 8192},
            "mistral-7b-v0.1 has layers with a window of 4096 tokens; allowed: all",
        ),
        (
            {
                "plan": {"context_parallel": 3, "context_exchange": "all-to-all"},
                "cluster": "3x a800-sxm-80gb",
                "workload__sequence_length": 36,
            },
            "plan.tensor_parallel 1 x plan.context_parallel 3 = 3",
        ),
        (
            {"plan__context_parallel": 4},
            "workload.sequence_length is 350",
        ),
        ({"plan__context_parallel": 5}, "plan.tensor_parallel 1 x plan.pipeline_parallel 1 x plan.context_parallel 5"),
        *(
            ({f"plan__{key}": value}, f"plan.{key} is {shown}, but llama-2-7b has no experts; allowed: {plain}")
            for key, value, shown, plain in (
                ("expert_capacity", 1.5, "1.5", "0"),
                ("expert_dispatch", "deduplicated", "'deduplicated'", "'all-to-all'"),
                ("expert_overlap", True, "true", "false"),
            )
        ),
        ({"plan__expert_parallel": 2}, "plan.expert_parallel is 2; llama-2-7b has no experts; allowed: 1"),
        ({"plan__optimizer": "adam"}, "plan.optimizer is 'adam'; allowed: adamw, adamw-fused, adamw-unfused"),
        (
            {"plan__schedule": "zero-bubble"},
            "plan.schedule is 'zero-bubble'",
        ),
        (
            {"plan__schedule": "dualpipe"},
            "plan.schedule is 'dualpipe'",
        ),
        ({"plan__max_sequences": 4}, "plan.max_sequences is 4"),
        (
            {"plan__micro_batch": [1, 2]},
            "plan.micro_batch is [1, 2]",
        ),
        ({"plan__micro_batch": {"any": [1, 2]}}, "plan.micro_batch is {'any': [1, 2]}"),
        ({"plan__zero_stage": {"from": 0, "to": 2}}, "plan.zero_stage is {'from': 0, 'to': 2}; allowed: "),
        (
            {"plan__tensor_parallel": 2},
            "plan.tensor_parallel is 2",
        ),
        (
            {"plan": MEGATRON | {"zero_stage": 2}},
            "plan.zero_stage is 2",
        ),
        (
            {"plan": {"tensor_parallel": 3}, "cluster": "6x a800-sxm-80gb"},
            "plan.tensor_parallel is 3",
        ),
        (
            {"plan": {"tensor_parallel": 2, "data_parallel": 2}},
            "plan.tensor_parallel 2 x plan.pipeline_parallel 1 x plan.data_parallel 2 is 4",
        ),
        (
            {"plan": {"tensor_parallel": 16}},
            "plan.tensor_parallel 16 x plan.pipeline_parallel 1 is 16",
        ),
        (
            {"workload__global_batch": 20},
            "workload.global_batch is 20",
        ),
        (
            {"workload__global_batch": 20, "plan__micro_batch": None},
            "workload.global_batch is 20",
        ),
        (
            {"plan": {"pipeline_parallel": 35}, "cluster": "35x a800-sxm-80gb"},
            "plan.pipeline_parallel is 35",
        ),
        (
            {"plan": {"pipeline_parallel": 8, "virtual_stages": 5}},
            "plan.pipeline_parallel is 8 and plan.virtual_stages 5, 40 stages together",
        ),
        ({"plan": {"virtual_stages": 2}}, "plan.virtual_stages is 2"),
        ({"cluster": "8x v100-sxm2-32gb"}, "plan.dtype is 'bf16' (the default)"),
        ({"cluster": "8x v100-sxm2-32gb", "plan__dtype": "bf16"}, "plan.dtype is 'bf16'"),
        ({"measured": 3}, "measured is 3"),
        ({"measured": {"step_time": 3}}, "measured.step_time is not a known key - did you mean 'step_time_s'?"),
        ({"measured": {"step_time_s": "1 GB"}}, "measured.step_time_s is '1 GB'"),
        ({"measured": {"phases": 3}}, "measured.phases is 3"),
        ({"measured": {"phases": {"host": -1}}}, "measured.phases has host, which is -1"),
        ({"measured": {"mfu": 45}}, "measured.mfu is 45"),
        ({"measured": {"fits": 1}}, "measured.fits is 1; allowed: true, false"),
        ({"measured": {"source": 1}}, "measured.source is 1; allowed: text"),
        ({"name": ["x"]}, "name is ['x']; allowed: text"),
        pytest.param({"name": "\ud800"}, "name is '\\ud800'", id="surrogate"),
        pytest.param({"name": "\x1b[31m"}, "name is '\\x1b[31m'", id="escape"),
    ],
)
def test_refusals(changes: dict[str, Any], sentence: str) -> None:
    assert any(sentence in problem for problem in problems(**changes)), problems(**changes)


def test_all_problems_at_once_and_none_invented() -> None:
    found = problems(
        modle="x",
        model="llama2-8b",
        cluster__network__latncy=1,
        workload__global_batch="16",
        plan__tensor_parallel=-1,
        plan__zero_stage=7,
        measured={"source": 1},
    )
    assert [p.split(" is ")[0] for p in found] == [
        "modle",
        "model",
        "cluster.network.latncy",
        "measured.source",
        "workload.global_batch",
        "plan.tensor_parallel",
        "plan.zero_stage",
    ]


def test_one_wrong_key_does_not_hide_what_does_not_fit_together() -> None:
    found = problems(plan=MEGATRON | {"zero_stage": 7, "tensor_parallel": 3, "data_parallel": 3})
    assert len(found) == 4
    assert found[1].startswith("plan.tensor_parallel is 3")
    assert found[2].endswith("is 9; allowed: the cluster's 8 devices")
    assert found[3].startswith("workload.global_batch is 16")


def test_not_a_mapping() -> None:
    with pytest.raises(InputError, match="the scenario is 3"):
        scenario_from_mapping(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[2].glob("examples/*.*")), ids=lambda p: p.name)
def test_the_examples_load(path: Path) -> None:
    assert load(path)


@pytest.mark.parametrize("name", catalog.names("frameworks"))
def test_every_framework_of_the_catalog_loads_in_every_version(name: str) -> None:
    entry = catalog.entry("frameworks", name)
    for version in (*(entry.get("versions") or ("",)), *(entry.get("aliases") or {})):
        framework = read_framework(name, str(version))
        assert framework.name == name
        assert framework.version == str(version) or version in entry.get("aliases", {})
        assert isinstance(framework.memory.context_bytes, float)
        unknown = set(framework.offers) - {f.name for f in fields(Plan)}
        assert not unknown, f"{name} offers values of fields that a plan does not have"


@pytest.mark.parametrize(
    ("workload", "tokens"),
    [
        ({"samples": 52_000}, 52_000 * 350),
        ({"samples": "52k", "epochs": 3}, 3 * 52_000 * 350),
        ({"samples": 1000, "epochs": 0.5, "lengths": {"distribution": "uniform", "min": 100, "max": 200}}, 75_000),
        ({"samples": 1000, "lengths": [100, 300, 1000]}, 250_000),
    ],
)
def test_samples_and_epochs_are_tokens(workload, tokens) -> None:
    read = scenario(**{f"workload__{key}": value for key, value in workload.items()})
    assert read.workload.total_tokens == pytest.approx(tokens)
    assert scenario_from_mapping(to_mapping(read)).workload.total_tokens == read.workload.total_tokens


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"samples": 10, "total_tokens": "1T"}, "both total_tokens and samples"),
        ({"epochs": 3}, "workload.samples is missing"),
        ({"samples": 0}, "workload.samples is 0"),
        ({"samples": 10, "epochs": "many"}, "workload.epochs is 'many'"),
    ],
)
def test_wrong_samples_are_refused(workload, said) -> None:
    with pytest.raises(InputError, match=said):
        scenario(**{f"workload__{key}": value for key, value in workload.items()})
