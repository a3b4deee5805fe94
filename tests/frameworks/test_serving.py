"""How engines schedule requests: limits by device, and rules by release line."""

import pytest
from serving_scenarios import serving

import sightline as sl
from sightline import catalog
from sightline.frameworks import read_engine
from sightline.frameworks.engine import Serving, serving_limits
from sightline.loading import generation_from_mapping
from sightline.simulation.deployment import facts_of

GIB = 2.0**30


@pytest.mark.parametrize(
    ("engine", "version", "device", "memory", "sequences", "tokens"),
    [
        ("vllm", "0.15", "h100-sxm-80gb", 79.6 * GIB, 1024, 8192),
        ("vllm", "0.15", "a100-sxm-80gb", 79.6 * GIB, 256, 2048),
        ("vllm", "", "l40s-48gb", 45 * GIB, 256, 2048),
        ("vllm", "0.27", "b200-sxm-180gb", 180 * GIB, 1024, 8192),
        ("vllm", "0.28", "b200-sxm-180gb", 180 * GIB, 1024, 16384),
        ("vllm", "0.2", "h100-sxm-80gb", 79.6 * GIB, 256, 2560),
        ("vllm", "0.5", "h100-sxm-80gb", 79.6 * GIB, 256, 4096),
        ("sglang", "", "rtx-4090", 24 * GIB, 2048, 2048),
        ("sglang", "", "h100-sxm-80gb", 79.6 * GIB, 2048, 8192),
        ("sglang", "", "b200-sxm-180gb", 180 * GIB, 2048, 16384),
        ("sglang", "0.4.1", "l40s-48gb", 45 * GIB, 2048, 8192),
    ],
)
def test_limits_follow_the_memory_of_the_device(
    engine: str, version: str, device: str, memory: float, sequences: int, tokens: int
) -> None:
    assert serving_limits(read_engine(engine, version).serving, device, memory, 4096) == (sequences, tokens)


@pytest.mark.parametrize(
    ("plan", "cluster", "tokens"),
    [
        ({"framework": "sglang"}, "1x rtx-4090", 24),
        ({"framework": "sglang"}, "4x rtx-4090", 80),
        ({"framework": "sglang"}, "2x h100-sxm-80gb", 256),
        ({"framework": "sglang"}, "4x h100-sxm-80gb", 512),
        ({"framework": "sglang", "speculative": {"tokens": 3, "acceptance": 0.7}}, "2x h100-sxm-80gb", 1024),
        ({"framework": "sglang", "framework_version": "0.4"}, "1x rtx-4090", 8),
        ({"framework": "sglang", "framework_version": "0.4"}, "4x rtx-4090", 80),
        ({"framework": "sglang", "framework_version": "0.4"}, "4x h100-sxm-80gb", 160),
        ({"framework": "sglang", "framework_version": "0.4.1", "data_parallel": 4}, "4x h100-sxm-80gb", 96),
        ({"framework": "sglang", "framework_version": "0.4.4", "data_parallel": 4}, "4x h100-sxm-80gb", 160),
        ({"framework": "vllm"}, "1x rtx-4090", 512),
        ({"framework": "vllm", "max_sequences": 16}, "1x rtx-4090", 32),
        ({"framework": "vllm", "cuda_graphs": False}, "1x rtx-4090", 0),
    ],
)
def test_the_largest_captured_step_follows_engine_device_and_ranks(plan, cluster: str, tokens: int) -> None:
    work = {"task": "generate", "batch": 8, "prompt_tokens": 128, "output_tokens": 8}
    asked = generation_from_mapping({"model": "mixtral-8x7b", "cluster": cluster, "workload": work, "plan": plan})
    assert asked.plan.captured_tokens(asked.model, asked.cluster.device, decode=True) == tokens


@pytest.mark.parametrize(
    ("version", "cluster", "ranks", "groups", "budget", "share", "tokens"),
    [
        ("", "1x h100-sxm-80gb", 1, 1, None, 0.835, 8192),
        ("", "8x h200-sxm-141gb", 8, 1, None, 0.897, 8192),
        ("", "8x h200-sxm-141gb", 8, 8, None, 0.769, 1024),
        ("", "8x h200-sxm-141gb", 8, 2, 2048, 0.907, 2048),
        ("", "8x rtx-4090", 8, 1, None, 0.806, 2048),
        # As much as that would leave nothing.
        ("", "8x h100-sxm-80gb", 8, 8, 30_000, 0.001, 30_000),
        ("0.4.1", "8x h200-sxm-141gb", 8, 1, None, 0.81, 8192),
        ("0.4.1", "1x h100-sxm-80gb", 1, 1, None, 0.88, 8192),
    ],
)
def test_sglang_reserves_memory_and_divides_chunks_by_device_ranks_and_groups(
    version: str, cluster: str, ranks: int, groups: int, budget: int | None, share: float, tokens: int
) -> None:
    """Against ``server_args.py`` of 0.5.7 and 0.4.1, by hand in MiB."""
    plan = {"framework": "sglang", "framework_version": version, "tensor_parallel": ranks, "max_batched_tokens": budget}
    work = {"task": "generate", "batch": 8, "prompt_tokens": 100, "output_tokens": 10}
    stated = {key: value for key, value in plan.items() if value} | {"attention_data_parallel": groups}
    scenario = {"model": "qwen3-30b-a3b", "cluster": cluster, "workload": work, "plan": stated}
    found = generation_from_mapping(scenario).plan
    assert found.memory_fraction == pytest.approx(share, abs=0.0009)
    assert found.max_batched_tokens == tokens
    facts = facts_of(serving(model="qwen3-30b-a3b", cluster=cluster, plan=stated), 1000)
    assert facts.token_budget == tokens
    assert facts.answer_share == pytest.approx(0.7 if groups == 1 else 0.21)


def test_vllm_takes_more_of_the_memory_since_0_20() -> None:
    shares = [read_engine("vllm", version).memory.memory_fraction for version in ("0.6", "0.15", "0.19", "0.20", "")]
    assert shares == [0.9, 0.9, 0.9, 0.92, 0.92]


def test_a_budget_that_is_not_stated_is_the_context_but_never_less_than_2048_tokens() -> None:
    assert serving_limits(Serving(), "any", 1e9, 512).max_batched_tokens == 2048
    assert serving_limits(Serving(), "any", 1e9, 32768).max_batched_tokens == 32768


@pytest.mark.parametrize("engine", ["vllm", "tgi", "lightllm"])
def test_engines_of_2023_launched_kernel_by_kernel_and_reduced_over_nccl(engine: str) -> None:
    plan = serving(plan={"framework": engine, "framework_version": "2023-11"}).plan
    assert not plan.cuda_graphs
    assert plan.engine.collectives.all_reduce == "nccl"


def test_without_a_limit_of_its_own_an_engine_runs_what_its_server_holds() -> None:
    held = Serving(max_sequences=None, max_concurrent_requests=128)
    assert (held.running_of(), held.running_of(1000)) == (128, 1000)
    assert Serving(max_sequences=64).running_of(1000) == 64


@pytest.mark.parametrize(
    ("version", "policy", "reserves", "ahead"),
    [
        ("0.2.7", "vllm-0", "prompt", False),
        ("0.6.3", "vllm-0", "prompt", False),
        ("0.8.5", "vllm", "chunk", False),
        ("0.13", "vllm", "chunk", False),
        ("0.14.1", "vllm", "chunk", True),
        ("0.18", "vllm", "chunk", True),
        ("0.19", "vllm", "prompt", True),
        ("0.23", "vllm", "prompt", True),
        ("", "vllm", "prompt", True),
    ],
)
def test_vllm_changed_its_scheduler_release_by_release(version: str, policy: str, reserves: str, ahead: bool) -> None:
    engine = read_engine("vllm", version)
    serving, default = engine.serving, engine.defaults["async_scheduling"]
    assert (serving.policy, serving.reserves, default) == (policy, reserves, ahead)


@pytest.mark.parametrize("engine", catalog.names("engines"))
def test_what_was_not_read_in_an_engine_s_sources_is_said_to_be_assumed(engine: str) -> None:
    serving = read_engine(engine).serving
    assert serving.source or serving.assumed or engine == "reference"
    assert set(serving.assumed) <= set(Serving.__slots__)


def test_an_answer_says_what_of_the_scheduler_is_assumed() -> None:
    assumed, read = (
        sl.simulate(serving(count=2, prompt_tokens=200_000, plan={"framework": engine}), intervals=False)
        for engine in ("lmdeploy", "vllm")
    )
    assert assumed.evidence["scheduler"] == "estimated"
    assert "scheduler" not in read.evidence
    (said,) = set(assumed.warnings) - set(read.warnings)
    assert said.startswith("the scheduler of lmdeploy is assumed")
