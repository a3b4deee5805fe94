"""Scenarios to be launched, and what of them has to come back."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import isclose
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.launching import Launch, read, save, write
from sightline.launching.engines.dialect import Dialect, servers_of
from sightline.launching.options import Options
from sightline.launching.registry import ENGINE_WRITERS
from sightline.launching.source import source_of
from sightline.launching.training.shared import with_micro_batch
from sightline.loading import generation_from_mapping, scenario_from_mapping
from sightline.loading.written import to_mapping
from sightline.prediction import predict
from sightline.scenario import GenerationScenario, Scenario

SMALL = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "intermediate_size": 512,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
}
MIXTURE = {**SMALL, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}


def asked(
    plan: Mapping[str, Any],
    model: Any = None,
    cluster: Any = "8x h100-sxm-80gb",
    batch: int = 64,
    task: str = "pretrain",
    **workload: Any,
) -> Scenario:
    """Return the scenario of a plan on a node."""
    return scenario_from_mapping(
        {
            "model": model or SMALL,
            "cluster": cluster,
            "workload": {"task": task, "sequence_length": 512, "global_batch": batch, **workload},
            "plan": {"micro_batch": 1, **plan},
        }
    )


def launched(scenario: Scenario, tool: str | None = None) -> Launch | None:
    """Return a scenario's launch; None where its framework or a tool cannot run it, which is then said in sentences."""
    try:
        return write(scenario, tool)
    except InputError:
        return None


def possible(plan: Mapping[str, Any], **others: Any) -> Scenario | None:
    """Return the scenario of a plan; None where its own rules refuse it."""
    try:
        return asked(plan, **others)
    except InputError:
        return None


def read_back(source: Any, cluster: Any = "8x h100-sxm-80gb") -> Scenario:
    """Return what a source says, with the cluster of a scenario, and its model where the source has none."""
    reading = read(source)
    model = reading.scenario.get("model", SMALL)
    whole = {"model": model, "cluster": cluster, **reading.scenario}
    return with_micro_batch(scenario_from_mapping(whole))


def plans(framework: str, **fields: Sequence[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw plans with values of the fields, each of which may be left out."""
    optional = {name: st.sampled_from(list(values)) for name, values in fields.items()}
    return st.fixed_dictionaries({"framework": st.just(framework)}, optional=optional)


ADAPTERS = [
    *("none", "lora", "qlora"),
    {"kind": "lora", "rank": 16, "alpha": 32, "targets": ["query", "value"]},
    {"kind": "lora", "rank": 8, "also_trained": ["embedding", "head"], "dropout": 0.05},
    {"kind": "qlora", "rank": 64, "targets": ["query", "key", "value", "output"]},
]
TRAINING_VALUES: Mapping[str, Sequence[Any]] = {
    "context_exchange": ["ring", "all-gather", "all-to-all", "mixed"],
    "data_parallel_shard": [1, 2, 4, 8],
    "expert_parallel": [1, 2, 4, 8],
    "expert_tensor_parallel": [1, 2],
    "expert_capacity": [1.25],
    "expert_dispatch": ["all-to-all", "deduplicated"],
    "expert_overlap": [True],
    "expert_skew": [0.3],
    "prediction_layers": [1],
    "micro_batch": [1, 2, 4],
    "virtual_stages": [1, 2],
    "zero_stage": [0, 1, 2, 3],
    "sequence_parallel": [True, False],
    "tensor_overlap": ["none", "backward", "all"],
    "overlap_gradient_reduce": [True, False],
    "overlap_parameter_gather": [True, False],
    "gradient_reduce_dtype": ["fp32", "bf16", "fp16"],
    "schedule": ["gpipe", "1f1b", "interleaved", "zero-bubble", "dualpipe"],
    "recompute": [
        *("none", "selective", "full"),
        *({"modules": "full", key: 2} for key in ("layers", "every", "together")),
        *(["mlp", "core_attention"], ["layernorm"], ["moe"]),
    ],
    "attention": ["flash", "eager"],
    "attention_kernel": ["flash-2", "flash-3", "cudnn", "triton"],
    **{key: [True, False] for key in ("fused_loss", "fused_norm", "fused_rope", "fused_activation")},
    "expert_launches": ["grouped", "each"],
    "vocabulary_parallel": [True, False],
    "state_dtype": ["fp32", "bf16"],
    "dtype": ["fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"],
    "fp8_recipe": ["delayed", "current", "blockwise"],
    "fp8_parameter_gather": [True, False],
    "fp8_transpose_cache": [True, False],
    "bf16_layers": [1, 2, 3],
    "narrow_head": [True],
    "quantization": ["none", "nf4", "nf4-single", "int8", "int4"],
    "adapter": ADAPTERS,
    "adapter_exchange": ["all-gather", "all-to-all"],
    "offload": ["none", "optimizer", "parameters", "activations", ["optimizer", "parameters"]],
    "optimizer": ["adamw", "adamw-fused", "adamw-unfused", "adamw-8bit", "muon", "sgd", "sgd-momentum"],
    "stage_layers": [[3, 5], [5, 3]],
    "compile": [True, False],
}
"""Values of a training plan; what a framework does not offer is drawn again."""
LENGTHS = [300, {"distribution": "lognormal", "mean": 200, "cv": 0.8}, [100, 200, 500]]
GENERATION_VALUES: Mapping[str, Sequence[Any]] = {
    "max_batched_tokens": [256, 512, 2048, 8192, 30_000],
    "chunked_prefill": [True, False],
    "prefix_cache": [True, False],
    "cuda_graphs": [True, False],
    "kv_block_tokens": [1, 16, 32, 64],
    "memory_fraction": [0.5, 0.85, 0.9, 0.95],
    "dtype": ["bf16", "fp16", "fp32", "fp8"],
    "speculative": [{"tokens": 3, "acceptance": 0.7}, {"tokens": 1, "acceptance": 0.8, "disable_above": 3}],
    "quantization": [
        *("none", "fp8", "kv-fp8", "w4a16", "w8a8", "int8", "w8a16", "kv-int8", "nf4", "nvfp4", "mxfp4", "q4_0"),
        *("q4_k_m", "int4", ["fp8", "kv-fp8"], ["fp8-block", "kv-fp8"], ["w4a16", "kv-int8"]),
    ],
    "max_sequences": [4, 64, 256],
    "expert_spread": [0.9],
    "redundant_experts": [0, 16],
    "expert_skew": [0.3],
}
Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of some values."""


def drawn(name: str, task: str, pick: Pick) -> Scenario | GenerationScenario:
    """Return a random scenario that a framework of training, or an engine of generation, has."""
    makes, loads = (_training, scenario_from_mapping) if task == "train" else (_generation, generation_from_mapping)
    while True:
        mapping = makes(name, pick)
        while True:
            try:
                return loads(mapping)
            except InputError as error:
                wrong = [key for key in mapping["plan"] if any(key in problem for problem in error.problems)]
                if not (wrong := [key for key in wrong if key != "framework"]):
                    break
                del mapping["plan"][pick(wrong)]


def _some(values: Mapping[str, Sequence[Any]], pick: Pick) -> dict[str, Any]:
    return {key: pick(several) for key, several in values.items() if pick([True, False, False, False])}


def _training(framework: str, pick: Pick) -> dict[str, Any]:
    cluster = pick(["1x rtx-4090", "4x a100-sxm-80gb", "8x h100-sxm-80gb", "16x h100-sxm-80gb", "8x b200-sxm-180gb"])
    plan, left = {"framework": framework, **_some(TRAINING_VALUES, pick)}, int(cluster.partition("x")[0])
    for degree in ("tensor_parallel", "pipeline_parallel", "context_parallel"):
        ranks = pick([1, 1, 2, 4]) if framework in ("megatron", "torchtitan", "torchtune", "maxtext") else 1
        if ranks > 1 and left % ranks == 0:
            plan[degree], left = ranks, left // ranks
    work = {"task": pick(["pretrain", "finetune"]), "sequence_length": pick([512, 4096])}
    if pick([True, False, False, False, False]):
        work |= {"lengths": pick(LENGTHS), "packing": pick([True, False])}
    tokens = {"total_tokens": pick([1e9, 3e9])} if pick([True, False]) else {}
    models = (SMALL, "llama-3.1-8b", "qwen3-8b", "qwen3-30b-a3b", "mixtral-8x7b", "gpt-oss-20b", "gemma-2-9b")
    return {
        "model": pick([*models, SMALL, "deepseek-v3"]),
        "cluster": cluster,
        "workload": {**work, **tokens, "global_batch": pick([64, 128, 256])},
        "plan": plan,
    }


def _generation(engine: str, pick: Pick) -> dict[str, Any]:
    plan: dict[str, Any] = {"framework": engine, **_some(GENERATION_VALUES, pick)}
    has = {"transformers": (), "llama.cpp": ("pipeline",), "tgi": ("tensor",), "lightllm": ("tensor",)}
    degrees = [f"{axis}_parallel" for axis in has.get(engine, ("tensor", "pipeline", "data"))]
    of = {name: pick([1, 1, 2, 8] if name == "data_parallel" else [1, 2, 4]) for name in degrees}
    ranks = of.get("tensor_parallel", 1) * of.get("data_parallel", 1)
    replicas = pick([1, 1, 2, 3])
    devices = ranks * of.get("pipeline_parallel", 1) * replicas
    if len(degrees) > 1 and pick([True, False, False, False, False]):
        prefill = {"tensor_parallel": pick([1, 2]), "replicas": pick([1, 2]), "batch": pick([1, 2])}
        decode = {"tensor_parallel": pick([1, 2])}
        plan["disaggregate"] = {"prefill": prefill, "decode": decode}
        devices = prefill["tensor_parallel"] * prefill["replicas"] + decode["tensor_parallel"]
    else:
        plan |= of | {"replicas": replicas, "expert_parallel": pick([1, ranks]) if len(degrees) > 1 else 1}
    models = ("llama-2-7b", "qwen3-8b", "qwen3-32b-fp8", "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b", "gemma-2-9b")
    return {
        "model": pick([*models, "mixtral-8x7b"]),
        "cluster": f"{devices}x {pick(['h100-sxm-80gb', 'b200-sxm-180gb'])}",
        "workload": {
            "task": "generate",
            "batch": pick([1, 8, 48, 300]),
            "prompt_tokens": pick([16, 3000]),
            "output_tokens": pick([100, 3000]),
            "continuous": pick([True, False]),
        },
        "plan": plan,
    }


def as_launched(
    scenario: Scenario | GenerationScenario, launch: Launch, folder: Path, change: Callable[[Path], None] | None = None
) -> Scenario | GenerationScenario:
    """Return what the saved files of a launch say, on the cluster of its scenario.

    No launch says how tokens choose experts, and a server's command neither its requests nor how many drafts are
    accepted. ``change`` is done to the folder before it is read.
    """
    save(launch, folder)
    if change is not None:
        change(folder)
    said, stated = read(folder).scenario, to_mapping(scenario)
    whole = {**said, "cluster": stated["cluster"]}
    uneven = {key: stated["plan"][key] for key in ("expert_skew", "expert_spread") if key in stated["plan"]}
    plan = {**said["plan"], **uneven}
    if isinstance(scenario, Scenario):
        return scenario_from_mapping({**whole, "plan": plan})
    if "speculative" in plan and (drafts := stated["plan"].get("speculative")):
        plan["speculative"] = {**plan["speculative"], "acceptance": drafts["acceptance"]}
    return generation_from_mapping({**whole, "plan": plan, "workload": stated["workload"]})


LIMITS: Mapping[str, tuple[str, str]] = {
    "vllm": ("max-model-len", "max-num-seqs"),
    "sglang": ("context-length", "max-running-requests"),
    "tensorrt-llm": ("max-seq-len", "max-batch-size"),
    "tgi": ("max-total-tokens", "max-batch-size"),
    "lightllm": ("max-req-total-len", "running-max-req-size"),
    "llama.cpp": ("ctx-size", "parallel"),
}
"""Options with the most tokens of a sequence, and the most sequences; of llama.cpp the tokens are those of all."""


def admits(scenario: GenerationScenario, folder: Path) -> bool:
    """Whether the servers of a launch in a folder take the sequences of its workload, each as long as they get."""
    engine, work = scenario.plan.engine.name, scenario.workload
    if engine not in LIMITS:
        return True
    dialect = import_module(f"sightline.launching.{ENGINE_WRITERS[engine]}").DIALECT
    servers, _, unread = servers_of(source_of(folder), dialect)
    length, running = ([one.number(name) or 0 for one in servers] for name in LIMITS[engine])
    # SGLang counts the sequences of ranks that share the experts together, others those of each rank.
    ranks = [1 if engine == "sglang" and one.has("attn-dp-size") else _data_parallel(one, dialect) for one in servers]
    longest = work.prompt_tokens + work.output_tokens
    if engine == "llama.cpp":
        length = [tokens // slots for tokens, slots in zip(length, running, strict=True)]
    answering = [
        sequences * times
        for one, sequences, times in zip(servers, running, ranks, strict=True)
        if dialect.role(one) != "prefill"
    ]
    prompts = [one.number("max-input-tokens") or longest for one in servers]
    takes_each = min(length) >= longest and min(prompts) >= work.prompt_tokens
    # In a steady loop others wait where the plan limits those that run.
    most = scenario.plan.max_sequences
    needed = (
        work.batch if most is None else min(work.batch, most * scenario.plan.data_parallel * scenario.plan.replicas)
    )
    return not unread and bool(takes_each and sum(answering) >= needed)


def _data_parallel(options: Options, dialect: Dialect) -> int:
    return int(dialect.plan(options).get("data_parallel", 1))


RUN = ("total_tokens", "steps", "run_time_s", "energy_j", "cost_usd")
"""Figures of a run, which a launch makes of whole steps, and which those without an end have not."""
FIGURES = (
    *("fits", "step_time_s", "tokens_per_s", "ttft_s", "tpot_s", "latency_s", "output_tokens_per_s"),
    *("usd_per_hour", "energy_per_step_j", "mfu", "cost_usd_per_million_tokens", *RUN),
)


def differing_figures(one: Scenario | GenerationScenario, other: Scenario | GenerationScenario) -> dict[str, Any]:
    """Return the predicted figures of two scenarios that are not the same; null is not 0."""
    a, b = (_figures(predict(each).to_dict()) for each in (one, other))
    whole_steps = 1 / (a["steps"] or 1e9)
    return {
        key: (a.get(key), b.get(key))
        for key in {*a, *b}
        if not _is_same(a.get(key), b.get(key), whole_steps if key in RUN else 1e-9)
    }


def _is_same(one: float | None, other: float | None, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    return isclose(one, other, rel_tol=tolerance)


def _figures(answer: Mapping[str, Any]) -> dict[str, float | None]:
    parts = [(part, answer.get(part) or {}) for part in ("memory_bytes", "phases")]
    inside = {f"{part}.{key}": value for part, group in parts for key, value in group.items()}
    return {**inside, **{key: answer.get(key) for key in FIGURES}}
