"""One rulebook: what loads, what a mesh masks and what a search counts are the same."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from generation_scenarios import generation
from hypothesis import given, settings
from hypothesis import strategies as st
from open_mesh import open_mesh
from training_scenarios import training

from sightline.errors import InputError
from sightline.loading import generation as generation_loader
from sightline.loading import training as training_loader
from sightline.scenario import GenerationScenario, Scenario
from sightline.scenario.rules import GENERATION_RULES, POOL_RULES, TRAINING_RULES, verdict
from sightline.scenario.rules.rulebook import Check, Checks, Facts, Rule, broken_rules, needed

MODELS = {
    "dense": "llama-3-8b",
    "multi-query": "falcon-7b",
    "experts": "mixtral-8x7b",
    "latent": "deepseek-v3",
    "sparse": "deepseek-v3.2",
    "linear": "qwen3-next-80b-a3b",
    "state-space": "nemotron-3-nano-30b-a3b",
    "windowed": "gemma-2-9b",
    "chunked": "llama-4-scout",
}
"""A model of every kind."""

CHOICES: dict[str, tuple[Any, ...]] = {
    "schedule": ("1f1b", "gpipe", "zero-bubble", "dualpipe", "interleaved"),
    "attention": ("flash", "eager"),
    "context_exchange": ("ring", "all-gather", "all-to-all", "mixed"),
    "expert_dispatch": ("all-to-all", "deduplicated"),
    "expert_overlap": (False, True),
    "dtype": ("bf16", "fp8", "nvfp4"),
    "optimizer": ("adamw", "muon"),
    "bf16_layers": (0, 2, 200),
    "prediction_layers": (0, 1),
    "recompute": ("none", "selective", "full"),
}
AXES: dict[str, tuple[int, ...]] = {
    "tensor_parallel": (1, 2, 3, 4, 8, 16),
    "pipeline_parallel": (1, 2, 3, 4, 64),
    "micro_batch": (1, 2, 3, 16),
    "virtual_stages": (1, 2, 40),
    "zero_stage": (0, 1, 2, 3),
    "sequence_parallel": (0, 1),
    "context_parallel": (1, 2, 3, 4, 16),
    "expert_parallel": (1, 2, 8, 64),
    "expert_tensor_parallel": (1, 2, 3),
    "data_parallel_shard": (1, 2, 3, 8),
}


def loads(model: str, frame: dict[str, Any], plan: dict[str, Any]) -> bool:
    """Whether a plan loads; the axes of a mesh are whole numbers, of a file also switches."""
    stated = {k: bool(v) if k == "sequence_parallel" else v for k, v in plan.items()}
    try:
        training(model=model, plan=stated, **frame)
    except InputError:
        return False
    return True


@st.composite
def meshes(draw: st.DrawFn) -> tuple[str, dict[str, Any], dict[str, Any], dict[str, list[int]]]:
    """Return a model, the frame of a training, choices of a plan, and the axes of a small mesh."""
    chosen = draw(st.sets(st.sampled_from(sorted(CHOICES)), max_size=2))
    plan = {field: draw(st.sampled_from(CHOICES[field])) for field in sorted(chosen)}
    plan["framework"] = draw(st.sampled_from(["reference", "megatron", "torchtitan", "deepspeed"]))
    axes = draw(st.lists(st.sampled_from(sorted(AXES)), min_size=1, max_size=3, unique=True))
    if "micro_batch" not in axes:
        plan["micro_batch"] = 1
    values = {axis: draw(st.lists(st.sampled_from(AXES[axis]), min_size=1, max_size=3, unique=True)) for axis in axes}
    frame = {
        "cluster": draw(st.sampled_from(["8x h100-sxm-80gb", "24x a100-sxm-80gb", "64x b200-sxm-180gb"])),
        "sequence_length": draw(st.sampled_from([2048, 4096, 24576])),
        "global_batch": draw(st.sampled_from([24, 96, 128])),
    }
    return draw(st.sampled_from(sorted(MODELS.values()))), frame, plan, values


def mesh_of(model: str, frame: dict[str, Any], plan: dict[str, Any], axes: dict[str, list[int]]) -> Scenario:
    """The mesh of plans, valid or not, around a scenario that loads."""
    loading = {"framework": plan["framework"], "dtype": "bf16", "micro_batch": 1}
    base = training(model=model, plan=loading, **{**frame, "global_batch": 192})
    base = replace(base, workload=replace(base.workload, global_batch=frame["global_batch"]))
    defaults = {**base.plan.framework.defaults, "dtype": "bf16", **plan}
    fields = {k: v for k, v in defaults.items() if k != "framework"}
    return open_mesh(replace(base, plan=replace(base.plan, **fields)), axes)


@settings(max_examples=75, deadline=None)
@given(meshes())
def test_a_mesh_holds_valid_exactly_the_plans_that_load(
    drawn: tuple[str, dict[str, Any], dict[str, Any], dict[str, list[int]]],
) -> None:
    model, frame, plan, axes = drawn
    mesh = mesh_of(model, frame, plan, axes)
    valid, rejected = verdict(mesh)
    assert valid.shape == tuple(len(values) for values in axes.values())
    assert bool(rejected) == (not valid.all())
    for index, values in zip(np.ndindex(valid.shape), product(*axes.values()), strict=True):
        stated = plan | dict(zip(axes, values, strict=True))
        assert valid[index] == loads(model, frame, stated), stated


@pytest.mark.parametrize(
    ("model", "cluster", "plan", "axes"),
    [
        ("mixtral-8x7b", "24x h100-sxm-80gb", {}, {"expert_tensor_parallel": [1, 2, 3], "expert_parallel": [1, 8, 3]}),
        ("llama-3-8b", "24x h100-sxm-80gb", {}, {"expert_tensor_parallel": [1, 2], "expert_parallel": [1, 2]}),
        (
            "llama-3-8b",
            "8x h100-sxm-80gb",
            {"schedule": "dualpipe"},
            {"pipeline_parallel": [1, 2, 4, 8], "virtual_stages": [1, 2], "micro_batch": [1, 2, 8]},
        ),
        ("nemotron-3-nano-30b-a3b", "64x h100-sxm-80gb", {}, {"tensor_parallel": [1, 2, 16], "context_parallel": [1, 2, 8]}),
        ("qwen3-next-80b-a3b", "64x h100-sxm-80gb", {}, {"tensor_parallel": [1, 16], "context_parallel": [1, 2]}),
        ("llama-3-8b", "64x h100-sxm-80gb", {}, {"tensor_parallel": [1, 16, 32, 64]}),
        (
            "llama-3-8b",
            "32x h100-sxm-80gb",
            {"context_exchange": "all-to-all"},
            {"tensor_parallel": [1, 4, 8], "context_parallel": [1, 3, 8]},
        ),
        (
            "mixtral-8x7b",
            "16x h100-sxm-80gb",
            {},
            {"data_parallel_shard": [1, 2, 3, 8, 16], "zero_stage": [0, 1], "expert_parallel": [1, 8]},
        ),
        (
            "gpt-3-175b",
            "96x a100-sxm-80gb",
            {"framework": "megatron"},
            {"tensor_parallel": [1, 5, 8, 16], "pipeline_parallel": [1, 4, 24, 96], "virtual_stages": [1, 2]},
        ),
        ("gemma-2-9b", "16x h100-sxm-80gb", {"context_exchange": "ring"}, {"context_parallel": [1, 2]}),
        ("llama-3-8b", "16x h100-sxm-80gb", {"framework": "deepspeed"}, {"virtual_stages": [1, 2], "pipeline_parallel": [1, 4]}),
    ],
)  # fmt: skip
def test_a_mesh_and_the_loader_agree(
    model: str, cluster: str, plan: dict[str, Any], axes: dict[str, list[int]]
) -> None:
    seen = agreed(model, cluster, {"framework": "reference", "micro_batch": 1} | plan, axes)
    assert {True, False} == set(seen)


def agreed(model: str, cluster: str, plan: dict[str, Any], axes: dict[str, list[int]]) -> list[bool]:
    """Which plans of a mesh load, the same as are valid in it."""
    frame = {"cluster": cluster, "sequence_length": 24576, "global_batch": 192}
    valid = verdict(mesh_of(model, frame, plan, axes)).valid
    seen = [loads(model, frame, plan | dict(zip(axes, values, strict=True))) for values in product(*axes.values())]
    assert valid.ravel().tolist() == seen
    return seen


@pytest.mark.parametrize(
    ("version", "allowed"),
    [
        # Stages 2 and 4, of 6, 12 and 24 micro-batches: whole groups of the default size, and before 0.8 three stages.
        ("2021-04", [False, False, False, False, True, True]),
        ("0.5", [False, False, False, False, True, True]),
        ("0.7", [False, False, False, False, True, True]),
        ("2024-06", [False, False, False, False, True, True]),
        ("0.8", [True, True, True, False, True, True]),
        ("2024-07", [True, True, True, False, True, True]),
        ("0.14", [True, True, True, False, True, True]),
    ],
)
def test_megatron_interleaves_whole_groups_of_the_default_size(version: str, allowed: list[bool]) -> None:
    plan = {"framework": "megatron", "framework_version": version, "data_parallel": 8, "virtual_stages": 2}
    axes = {"pipeline_parallel": [2, 4], "micro_batch": [4, 2, 1]}
    frame = {"cluster": "8x h100-sxm-80gb", "sequence_length": 2048, "global_batch": 192}
    stages = [
        loads(
            "llama-3-8b", {**frame, "cluster": f"{8 * stages}x h100-sxm-80gb"}, plan | dict(zip(axes, one, strict=True))
        )
        for one in product(*axes.values())
        for stages in one[:1]
    ]
    assert stages == allowed


@pytest.mark.parametrize("exchange", CHOICES["context_exchange"])
@pytest.mark.parametrize("attention", ["flash", "eager"])
@pytest.mark.parametrize("model", ["llama-3-8b", "mistral-7b-v0.1"])
def test_a_mesh_and_the_loader_agree_on_split_sequences(exchange: str, attention: str, model: str) -> None:
    plan = {"framework": "reference", "context_exchange": exchange, "attention": attention, "micro_batch": 1}
    assert agreed(model, "192x h100-sxm-80gb", plan, {"tensor_parallel": [1, 4], "context_parallel": [1, 2, 3, 16]})[0]


def test_every_rule_counts_the_plans_that_break_it() -> None:
    frame = {"cluster": "96x h100-sxm-80gb", "sequence_length": 2048, "global_batch": 96}
    axes = {"tensor_parallel": [1, 3, 5], "micro_batch": [1, 2, 5, 7], "zero_stage": [0, 1]}
    valid, rejected = verdict(mesh_of("llama-3-8b", frame, {"framework": "reference"}, axes))
    # 5 divides no cluster of 96, so nothing is asked about its batch; 3 divides no 32 heads.
    assert rejected == {"tensor_heads": 16, "device_count": 8, "global_batch": (3 + 3) * 2}
    assert int(valid.sum()) == 2


def test_small_masks_stay_small_until_the_end() -> None:
    axes = {"tensor_parallel": [1, 2, 3, 4], "micro_batch": list(range(1, 1001)), "zero_stage": [0, 1, 2, 3]}
    frame = {"cluster": "8x h100-sxm-80gb", "sequence_length": 2048, "global_batch": 1024}
    valid, rejected = verdict(mesh_of("llama-3-8b", frame, {"framework": "reference"}, axes))
    assert valid.shape == (4, 1000, 4)
    assert valid.strides[2] == 0  # no rule looks at the ZeRO stage, so its axis is never laid out
    assert rejected["tensor_heads"] == 1000 * 4


def test_rules_have_names_of_their_own() -> None:
    names = [rule.__name__ for rule in TRAINING_RULES]
    assert len(names) == len(set(names))
    assert all(rule.__doc__ for rule in (*TRAINING_RULES, *GENERATION_RULES))
    # Scripts read these as keys of `rejected`: names are added, never changed.
    assert names == [
        "tensor_heads", "state_heads", "device_count", "expert_ranks", "replica_groups", "expert_options",
        "context_length", "context_heads", "context_kernel", "context_windows", "sample_lengths", "global_batch",
        "stage_layers", "virtual_stages", "interleaving", "dualpipe", "dtype", "low_precision", "framework_options",
        "interleaving_needs", "framework_choices", "offloading", "muon", "recomputed_modules", "adapter_task", "preferences", "adapter_targets", "adapter_layers", "blocking_launches",
        "adapter_weights", "prediction_layers", "unlike_ranks", "unlike_split", "unlike_experts", "stated_layers",
        "group_batches", "unlike_batch",
    ]  # fmt: skip


def facts_asked(monkeypatch: pytest.MonkeyPatch, loader: ModuleType, load: Callable[[], object]) -> list[Facts]:
    """The facts that a loader asks rules about."""
    asked: list[Facts] = []

    def broken(rules: Iterable[Rule], facts: Facts) -> Iterator[str]:
        asked.append(facts)
        return broken_rules(rules, facts)

    monkeypatch.setattr(loader, "broken_rules", broken)
    load()
    return asked


def not_asked(rules: Iterable[Rule], facts: Facts) -> list[str]:
    """Rules that some fact is missing for: broken silently by a misspelled parameter."""
    return [rule.__name__ for rule in rules if not facts.keys() >= set(needed(rule))]


def test_every_rule_of_training_is_asked_of_a_full_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> Scenario:
        return training(model="mixtral-8x7b", cluster="8x h100-sxm-80gb", global_batch=8, lengths=[100, 200])

    (facts,) = facts_asked(monkeypatch, training_loader, load)
    assert not_asked(TRAINING_RULES, facts) == []


def test_every_rule_of_generation_is_asked_of_a_full_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {"expert_tensor_parallel": 4, "max_sequences": 8, "quantization": "fp8", "max_batched_tokens": 8192}
    plan |= {"expert_parallel": 2, "redundant_experts": 2, "expert_spread": 1}
    degrees = {"tensor_parallel": 4, "expert_parallel": 2}
    pools = {"disaggregate": {"prefill": degrees, "decode": degrees}}

    def load(plan: dict[str, Any]) -> GenerationScenario:
        return generation(model="mixtral-8x7b", cluster="8x h100-sxm-80gb", prefix_tokens=1, plan=plan)

    (facts,) = facts_asked(monkeypatch, generation_loader, lambda: load(plan))
    assert not_asked(GENERATION_RULES, facts) == ["unlike_pools", "disaggregated_devices"]
    prefill, decode, both = facts_asked(monkeypatch, generation_loader, lambda: load({**plan, **pools}))
    assert not_asked(POOL_RULES, prefill) == not_asked(POOL_RULES, decode) == []
    # Rules about a degree are asked of each kind of workers instead.
    of_degrees = ["tensor_heads", "engine_stages", "engine_experts", "engine_devices", "unlike_replicas"]
    of_degrees[3:3] = ["engine_copies", "experts_apart"]
    of_degrees.append("engine_expert_tensor_parallel")
    assert not_asked(GENERATION_RULES, both) == of_degrees


def test_a_rule_is_asked_only_when_all_its_facts_are_known() -> None:
    assert list(broken_rules(TRAINING_RULES, {})) == []
    facts = {"key": "plan", "heads": 32, "tensor_parallel": 3}
    (said,) = broken_rules(TRAINING_RULES, facts)
    assert said == "plan.tensor_parallel is 3; allowed: a divisor of the model's 32 attention heads"


@pytest.mark.parametrize(("model", "layers"), [("mixtral-8x7b", 32), ("llama-3-8b", 32), ("deepseek-v3", 61)])
def test_plans_of_generation_are_masked_by_the_rules_they_load_by(model: str, layers: int) -> None:
    axes = {"tensor_parallel": (1, 3, 8), "pipeline_parallel": (1, 2, layers + 1), "expert_parallel": (1, 2, 3, 16)}
    base = generation(model=model, cluster="8x h200-sxm-141gb", batch=8)

    def answers(t: int, p: int, e: int) -> bool:
        plan = {"tensor_parallel": t, "pipeline_parallel": p, "expert_parallel": e, "replicas": 1, "data_parallel": 1}
        try:
            generation(model=model, cluster="8x h200-sxm-141gb", batch=8, plan=plan)
        except InputError:
            return False
        return True

    fields = {name: np.array(v).reshape([-1 if i == own else 1 for i in range(3)]) for own, (name, v) in enumerate(axes.items())}  # fmt: skip
    mesh: GenerationScenario = replace(base, plan=replace(base.plan, replicas=1, data_parallel=1, **fields))
    valid, rejected = verdict(mesh)
    assert valid.ravel().tolist() == [answers(*values) for values in product(*axes.values())]
    assert rejected["engine_stages"] == 12


def test_workers_of_their_own_fill_the_cluster_together() -> None:
    pools = {"prefill": {"tensor_parallel": 2}, "decode": {"tensor_parallel": 4}}
    split = generation(model="llama-3-8b", cluster="6x h100-sxm-80gb", plan={"disaggregate": pools})
    assert verdict(split).valid
    decode = np.array([1, 4, 5])
    valid, rejected = verdict(replace(split, plan=replace(split.plan, tensor_parallel=decode)))
    assert valid.tolist() == [False, True, False]
    assert rejected == {"tensor_heads": 1, "disaggregated_devices": 2}


def test_a_rule_that_was_kept_is_asked_again_of_other_facts():
    def even(number: int) -> Checks:
        yield Check(number % 2 == 0, "{number} is odd")

    said = [list(broken_rules([even], {"number": number})) for number in (2, 2, 3, 3, 2)]
    assert said == [[], [], ["3 is odd"], ["3 is odd"], []]
