"""The list of the ledger's scenarios, drawn by a seed from the catalog, the examples and the published suites."""

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sightline as sl
from sightline import catalog
from sightline.errors import SightlineError

SEED = 20261122
EXAMPLES = Path(__file__).parents[1] / "examples"
TRAININGS, GENERATIONS, OPERATORS, OF_A_SUITE = 750, 600, 200, 7

TECHNIQUES: tuple[dict[str, Any], ...] = (
    {},
    {"tensor_parallel": 2, "sequence_parallel": True},
    {"tensor_parallel": 4},
    {"pipeline_parallel": 2},
    {"pipeline_parallel": 4, "tensor_parallel": 2},
    {"pipeline_parallel": 2, "virtual_stages": 2},
    {"pipeline_parallel": 2, "schedule": "zero-bubble"},
    {"pipeline_parallel": 2, "schedule": "dualpipe"},
    {"context_parallel": 2},
    {"context_parallel": 2, "context_exchange": "all-gather"},
    {"context_parallel": 4, "context_exchange": "all-to-all"},
    {"context_parallel": 4, "context_exchange": "mixed"},
    {"expert_parallel": 4},
    {"expert_parallel": 8, "expert_dispatch": "deduplicated"},
    {"expert_parallel": 2, "tensor_parallel": 2, "expert_tensor_parallel": 2},
    {"expert_parallel": 4, "expert_capacity": 1.25, "expert_skew": 0.2},
    {"expert_parallel": 4, "pipeline_parallel": 2, "expert_overlap": True},
    {"zero_stage": 1},
    {"zero_stage": 2},
    {"zero_stage": 3},
    {"zero_stage": 3, "data_parallel_shard": 4},
    {"zero_stage": 1, "offload": ["optimizer"]},
    {"zero_stage": 3, "offload": ["optimizer", "parameters"]},
    {"offload": ["activations"]},
    {"recompute": "full"},
    {"recompute": "selective"},
    {"recompute": ["core_attention", "mlp"]},
    {"recompute": ["layernorm", "moe_activation"]},
    {"recompute": "per_op"},
    {"attention": "eager"},
    {"attention": "eager", "tensor_parallel": 2},
    {"dtype": "fp32"},
    {"dtype": "fp16"},
    {"dtype": "fp8"},
    {"dtype": "fp8", "tensor_parallel": 2, "sequence_parallel": True, "fp8_recipe": "blockwise"},
    {"dtype": "mxfp8", "bf16_layers": 2},
    {"dtype": "nvfp4"},
    {"optimizer": "muon", "zero_stage": 1},
    {"optimizer": "adamw-8bit"},
    {"optimizer": "sgd"},
    {"compile": True},
    {"tensor_parallel": 2, "tensor_overlap": "all", "sequence_parallel": True},
    {"adapter": {"kind": "lora", "rank": 16, "targets": "all-linear"}},
    {"adapter": {"kind": "lora", "rank": 8, "targets": ["query", "value"]}, "tensor_parallel": 2},
    {"adapter": {"kind": "qlora", "rank": 64, "targets": "all-linear"}},
    {"quantization": "nf4"},
    {"quantization": "int8"},
    {"micro_batch": None},
)
WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"tensor_parallel": 2},
    {"tensor_parallel": 8},
    {"pipeline_parallel": 2},
    {"pipeline_parallel": 4, "tensor_parallel": 2},
    {"data_parallel": 4, "expert_parallel": 4},
    {"data_parallel": 8, "expert_parallel": 8, "expert_skew": 0.1},
    {"tensor_parallel": 4, "expert_parallel": 4},
    {"replicas": 2},
    {"quantization": ["fp8"]},
    {"quantization": ["fp8-block"]},
    {"quantization": ["w4a16"]},
    {"quantization": ["w8a16"]},
    {"quantization": ["w8a8", "kv-int8"]},
    {"quantization": ["nvfp4", "kv-fp8"]},
    {"quantization": ["nf4"]},
    {"quantization": ["int8"]},
    {"quantization": ["q4_0"]},
    {"quantization": ["q4_k_m"]},
    {"chunked_prefill": True, "max_batched_tokens": 512},
    {"chunked_prefill": False, "max_batched_tokens": 8192},
    {"cuda_graphs": False},
    {"speculative": {"tokens": 3, "acceptance": 0.7}},
    {"prefix_cache": True},
    {"dtype": "fp16"},
    {"dtype": "fp32"},
    {"disaggregate": {"prefill": {"tensor_parallel": 1, "replicas": 2}}},
)
PROCESSOR: dict[str, Any] = {
    "name": "a processor",
    "per_node": 2,
    "device": {
        "name": "a-processor",
        "peak_flops": {"fp32": 1.6e11, "bf16": 3.2e11, "fp16": 1.6e11},
        "memory": 12.6e9,
        "memory_bandwidth": 2.4e10,
        "l2": 1.68e7,
        "l2_bandwidth": 7.5e10,
        "compute_units": 1,
        "tdp": 10,
        "idle_power": 3,
        "vector_flops": 1.6e11,
        "calibration": "processor",
        "relatives": ["processor"],
        "source": "made up",
    },
    "intra_node": {"name": "loopback", "bandwidth": 2e9, "latency": 3e-5, "topology": "full-mesh", "source": "made up"},
    "network": {"name": "loopback", "bandwidth_per_node": 2e9, "latency": 3e-5, "source": "made up"},
    "host": {"name": "a host", "memory": 2.5e10, "memory_bandwidth": 4.8e10, "cores": 2, "source": "made up"},
}
"""Stands for ``this-machine``, whose numbers no two machines share."""
TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 1376,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
}


def draw_scenarios(data: Path | None) -> Iterator[dict[str, Any]]:
    """Yield every scenario with its key; only such as load."""
    rng = random.Random(SEED)  # noqa: S311 - a sample, no secret
    counted: dict[str, int] = {}
    for area, scenario in (
        *_trainings(rng),
        *_generations(rng),
        *_operators(rng),
        *_examples(),
        *_published(rng, data),
    ):
        counted[area] = counted.get(area, 0) + 1
        yield {"key": f"{area}/{counted[area]:03d}", "scenario": scenario}


def _answered(scenario: Mapping[str, Any]) -> bool:
    try:
        sl.load(dict(scenario))
    except SightlineError:
        return False
    return True


def _trainings(rng: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Trainings that load, spread evenly over frameworks with their versions, techniques, models and devices."""
    ways = [(name, version) for name in catalog.names("frameworks") for version in _versions("frameworks", name)]
    ways += [("reference", "")] * 5
    models, devices = list(catalog.names("models")), list(catalog.names("devices"))
    found = 0
    while found < TRAININGS:
        framework, version = ways[found % len(ways)]
        plan = {"framework": framework, "micro_batch": rng.choice([1, 2, 4]), **rng.choice(TECHNIQUES)}
        if version:
            plan["framework_version"] = version
        if plan["micro_batch"] is None:
            del plan["micro_batch"]
        on_processor = framework in ("deepspeed", "fsdp", "transformers") and found % 5 == 0
        common = ["a100-sxm-80gb", "h100-sxm-80gb", "a800-sxm-80gb", "b200-sxm-180gb", "rtx-4090", "rtx-3090", "mi210"]
        device = rng.choice([*common, *devices])
        workload: dict[str, Any] = {"task": rng.choice(["pretrain", "pretrain", "finetune"])}
        if "adapter" in plan or "quantization" in plan:
            workload["task"] = "finetune"
        workload |= {
            "sequence_length": rng.choice([350, 512, 2048, 4096, 8192, 32768]),
            "global_batch": rng.choice([8, 16, 64, 256, 1024]),
        }
        if rng.random() < 0.1:
            workload["total_tokens"] = 1e12
        scenario: dict[str, Any] = {
            "model": rng.choice(models),
            "cluster": f"{rng.choice([1, 2, 4, 8, 16, 64, 512])}x {device}",
            "workload": workload,
            "plan": plan,
        }
        area = f"training/{framework}"
        if on_processor:
            plan |= {"dtype": rng.choice(["fp32", "bf16"])}
            workload |= {"sequence_length": rng.choice([64, 128, 512]), "global_batch": rng.choice([4, 8])}
            scenario |= {"model": TINY, "cluster": {**PROCESSOR, "devices": rng.choice([1, 2])}}
            area = "training/processor"
        if _answered(scenario):
            found += 1
            yield area, scenario


def _versions(kind: str, name: str) -> list[str]:
    return ["", *(catalog.entry(kind, name).get("versions") or {})]


def _generations(rng: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Generations that load, spread evenly over engines with their versions, ways, models and devices."""
    ways = [(name, version) for name in catalog.names("engines") for version in _versions("inference", name)]
    models, devices = list(catalog.names("models")), list(catalog.names("devices"))
    common = ["a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "h20", "l40s-48gb", "rtx-4090"]
    found = 0
    while found < GENERATIONS:
        engine, version = ways[found % len(ways)]
        plan = {"framework": engine, **rng.choice(WAYS)}
        if version:
            plan["framework_version"] = version
        workload: dict[str, Any] = {
            "task": "generate",
            "batch": rng.choice([1, 4, 16, 64, 256]),
            "prompt_tokens": rng.choice([16, 512, 1000, 4096, 32768]),
            "output_tokens": rng.choice([2, 128, 1024]),
        }
        if rng.random() < 0.3:
            workload |= {"continuous": True, "equal_lengths": rng.random() < 0.5}
        if "prefix_cache" in plan:
            workload["prefix_tokens"] = workload["prompt_tokens"] // 2
        scenario: dict[str, Any] = {
            "model": rng.choice(models),
            "cluster": f"{rng.choice([1, 2, 4, 8, 16, 32])}x {rng.choice([*common, *devices])}",
            "workload": workload,
            "plan": plan,
        }
        area = f"generation/{engine}"
        if engine in ("transformers", "reference") and rng.random() < 0.25:
            plan["dtype"] = "fp32"
            scenario |= {"model": TINY, "cluster": {**PROCESSOR, "devices": 1}}
            area = "generation/processor"
        if _answered(scenario):
            found += 1
            yield area, scenario


def _operators(rng: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Operators that load, of every kind."""
    kinds = (_matmul, _grouped, _attention, _collective, _elementwise)
    devices = list(catalog.names("devices"))
    common = ["a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb", "mi210", "rtx-4090", "v100-pcie-16gb", "l40s-48gb"]
    found = 0
    while found < OPERATORS:
        workload = kinds[found % len(kinds)](rng)
        on_many = "bytes" in workload
        count = rng.choice([2, 4, 8, 16, 64]) if on_many else 1
        scenario = {
            "cluster": f"{count}x {rng.choice([*common, *devices])}",
            "workload": {"task": "operator", **workload},
        }
        if _answered(scenario):
            found += 1
            yield f"operator/{workload['operator']}", scenario


def _matmul(rng: random.Random) -> dict[str, Any]:
    sizes = [1, 16, 100, 128, 1000, 4096, 11008, 16384]
    found = {"operator": "matmul", "m": rng.choice(sizes), "n": rng.choice(sizes[2:]), "k": rng.choice(sizes[2:])}
    formats = ["16-bit", "fp8", "fp8-block", "w8a8", "w8a16", "w4a16", "nvfp4"]
    return found | ({"format": rng.choice(formats)} if rng.random() < 0.6 else {"dtype": rng.choice(["fp16", "tf32"])})


def _grouped(rng: random.Random) -> dict[str, Any]:
    return {
        "operator": "grouped_matmul",
        "rows": rng.choice([8, 64, 4096, 65536]),
        "experts": rng.choice([8, 64, 256]),
        "n": rng.choice([1536, 4096]),
        "k": rng.choice([2048, 7168]),
        "format": rng.choice(["16-bit", "fp8-block", "fp8", "w4a16"]),
    }


def _attention(rng: random.Random) -> dict[str, Any]:
    heads = rng.choice([8, 32, 64])
    decode = rng.random() < 0.5
    found = {
        "operator": "attention",
        "batch": rng.choice([1, 8, 64]),
        "heads": heads,
        "kv_heads": rng.choice([1, 8, heads]),
        "head_dim": rng.choice([64, 80, 128]),
        "query_tokens": 1 if decode else rng.choice([128, 350, 2048, 8192]),
    }
    if decode:
        found["context_tokens"] = rng.choice([128, 2048, 32768])
    if rng.random() < 0.3:
        found["window"] = 1024
    if rng.random() < 0.3:
        found["kv_dtype"] = "fp8"
    return found


def _collective(rng: random.Random) -> dict[str, Any]:
    kinds = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast"]
    found = {"operator": rng.choice(kinds), "bytes": rng.choice([256, 65536, 2**20, 2**26, 2**30])}
    return found | ({"library": "custom"} if found["operator"] == "all_reduce" and rng.random() < 0.4 else {})


def _elementwise(rng: random.Random) -> dict[str, Any]:
    kinds = ["copy", "norm", "activation", "gated_activation", "embedding", "rope", "softmax"]
    kinds += ["cross_entropy", "adam", "dropout", "residual"]
    return {"operator": rng.choice(kinds), "elements": rng.choice([1000, 10**6, 10**8, 3 * 10**9])}


def _examples() -> Iterator[tuple[str, dict[str, Any]]]:
    """The examples that do not speak of the machine they run on, one line a scenario."""
    from sightline.loading import load_all, to_mapping

    for path in sorted(EXAMPLES.glob("*.*")):
        if "this-machine" in path.read_text(encoding="utf-8"):
            continue
        for scenario in load_all([path]):
            yield "examples", json.loads(json.dumps(to_mapping(scenario)))


def _published(rng: random.Random, data: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Some cases of every published suite of training and generation."""
    from sightline.validation.evaluation import choose

    for suite in choose(None, data):
        cases = list(getattr(suite, "cases", ()))
        if getattr(suite, "kind", "operators") == "operators" or not cases:
            continue
        chosen = rng.sample(range(len(cases)), min(OF_A_SUITE, len(cases)))
        for i in sorted(chosen):
            scenario = json.loads(json.dumps(cases[i].scenario))
            if _answered(scenario):
                yield f"published/{suite.name}", scenario
