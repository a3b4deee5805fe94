"""Coverage: the evidence of a prediction for each device and operator, framework and technique, engine and feature.

A cell is the answer to a small scenario, or its refusal: nothing is listed by hand that the catalog or a type lists.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any, get_args

from sightline.catalog import names
from sightline.cost.families import family_with, is_own
from sightline.errors import InputError, nearest
from sightline.frameworks import TensorOverlap
from sightline.frameworks.behavior import read_framework
from sightline.loading.clusters.cluster import read_device
from sightline.prediction import predict
from sightline.prediction.generation.engine_constants import missing_measurements, set_of
from sightline.prediction.single_operators import predict_operator
from sightline.prediction.training.constants import shipped_coverage
from sightline.profile.results import stamped
from sightline.progress import SILENT, Progress
from sightline.scenario import Device, operation, precision
from sightline.scenario.cluster import COLLECTIVES
from sightline.scenario.generation import SERVING_ONLY, Router, Scheduler
from sightline.scenario.plan import (
    OFFLOADABLE,
    OPTIMIZERS,
    TRAINING_QUANTIZATIONS,
    AttentionKernel,
    ContextExchange,
    ExpertDispatch,
    Schedule,
)
from sightline.scenario.techniques import MODULES, AdapterKind
from sightline.simulation.simulate import simulate
from sightline.validation.coverage_cells import STATUSES, Cell, Choice, Question, Status, Table, cell, each, published


def coverage_to_dict(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return every cell under the documented keys."""
    return stamped({"coverage": [cell_to_dict(cell) | {"scenario": cell.question} for cell in cells]})


def cell_to_dict(cell: Cell) -> dict[str, Any]:
    """Return a cell without its scenario."""
    keys = ("table", "of", "what", "dtype", "status", "evidence", "why")
    published = cell.published
    counts = (None, None) if published is None else (published.cases, published.sources)
    return {key: getattr(cell, key) for key in keys} | dict(zip(("cases", "sources"), counts, strict=True))


TRAINED_DENSE, TRAINED_EXPERTS, LATENT = "llama-3-8b", "mixtral-8x7b", "deepseek-v2-lite"
UNMEASURED_ON = ("h100-sxm-80gb", "b200-sxm-180gb")
"""Where frameworks are asked that nobody measured, the first that computes in the dtype."""
_WORKLOAD = {"sequence_length": 2048, "global_batch": 64}
_MODELS = {"moe": TRAINED_EXPERTS, "moe_activation": TRAINED_EXPERTS, "latent_up": LATENT, "shared_experts": LATENT}
"""Models with the modules that others lack."""


def technique_cells(framework: str) -> Iterator[Cell]:
    """Yield the cell of every technique under a framework's newest release."""
    counts = published("techniques", read_framework(framework).lineage)
    for technique in TECHNIQUES:
        device = device_of_framework(framework, str(technique.plan.get("dtype", "bf16")))
        question = technique.question(framework, device, _WORKLOAD)
        yield cell("techniques", framework, technique.name, question, answered, published=counts(technique.name))


def device_of_framework(framework: str, dtype: str) -> str:
    """Return the device that computes in a dtype and on which most steps of a framework's lineage were published."""
    on = shipped_coverage().get(read_framework(framework).lineage, {}).get("on", {})
    measured = sorted(on, key=lambda family: -on[family]["rows"])
    devices = [name for family in measured for name in names("devices") if name.startswith(family)]
    return next(name for name in (*devices, *UNMEASURED_ON) if precision.computes_in(read_device(name), dtype))


def answered(scenario: Any) -> tuple[str, str]:
    """Return what a prediction's framework or engine rests on, and what it lacks to be calibrated."""
    profile = predict(scenario)
    return str(profile.evidence["framework"]), str(profile.missing.get("framework", ""))


def _technique(name: str, plan: Question, needs: Question | None = None, **more: Any) -> Choice:
    return Choice(
        name=name,
        plan=plan,
        needs={"micro_batch": 1, **(needs or {})},
        **{"model": TRAINED_DENSE, "task": "pretrain", "devices": 16, **more},
    )


def _parallelism() -> Iterator[Choice]:
    yield _technique("tensor parallelism", {"tensor_parallel": 2})
    split = {"tensor_parallel": 2, "sequence_parallel": True}
    yield _technique("sequence parallelism", split)
    for overlap in get_args(TensorOverlap):
        if overlap != "none":
            yield _technique(f"tensor overlap {overlap}", {**split, "tensor_overlap": overlap})
    for schedule in get_args(Schedule):
        chunks = {"virtual_stages": 2} if schedule == "interleaved" else {}
        yield _technique(f"pipeline {schedule}", {"pipeline_parallel": 4, "schedule": schedule}, needs=chunks)
    for exchange in get_args(ContextExchange):
        yield _technique(f"context {exchange}", {"context_parallel": 2, "context_exchange": exchange})
    yield from _experts()
    yield from each(_technique, "ZeRO", "zero_stage", (1, 2, 3))
    yield _technique("hybrid sharding", {"data_parallel_shard": 4}, needs={"zero_stage": 3})


def _experts() -> Iterator[Choice]:
    spread = {"expert_parallel": 4}
    yield _technique("expert parallelism", spread, model=TRAINED_EXPERTS)
    split = {"tensor_parallel": 2}
    yield _technique("expert tensor parallelism", {"expert_tensor_parallel": 2}, needs=split, model=TRAINED_EXPERTS)
    for dispatch in get_args(ExpertDispatch):
        yield _technique(f"expert dispatch {dispatch}", {**spread, "expert_dispatch": dispatch}, model=TRAINED_EXPERTS)
    yield _technique("expert overlap", {**spread, "expert_overlap": True}, model=TRAINED_EXPERTS)


def _memory() -> Iterator[Choice]:
    yield from each(_technique, "recompute", "recompute", ("selective", "full"))
    for module in MODULES:
        model = _MODELS.get(module, TRAINED_DENSE)
        yield _technique(f"recompute {module}", {"recompute": {"modules": [module]}}, model=model)
    yield from each(_technique, "offload", "offload", OFFLOADABLE, needs={"zero_stage": 3})
    # FSDP offloads neither of both without the other.
    both = {"offload": ["optimizer", "parameters"]}
    yield _technique("offload optimizer and parameters", both, needs={"zero_stage": 3})


def _training_formats() -> Iterator[Choice]:
    yield from each(_technique, "attention", "attention", get_args(AttentionKernel))
    yield from each(_technique, "dtype", "dtype", ("fp32", "tf32", "fp16", "bf16", *precision.LOW_PRECISION))
    for recipe in precision.FP8_RECIPES:
        yield _technique(f"fp8 scales {recipe}", {"dtype": "fp8", "fp8_recipe": recipe})
    for kind in get_args(AdapterKind):
        yield _technique(kind, {"adapter": {"kind": kind}}, task="finetune")
    adapted = {"needs": {"adapter": {"kind": "lora"}}, "task": "finetune"}
    yield from each(_technique, "frozen weights", "quantization", TRAINING_QUANTIZATIONS, **adapted)
    yield from each(_technique, "optimizer", "optimizer", OPTIMIZERS)
    yield _technique("compilation", {"compile": True})


TECHNIQUES: tuple[Choice, ...] = (*_parallelism(), *_memory(), *_training_formats())
"""Everything that a plan of training may be told by, one at a time; the values are those that the plan's types list."""


DENSE, EXPERTS, FOUR_BIT_EXPERTS, FULL_ROUTER = "llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b", "minimax-m2"
USUAL = "h100-sxm-80gb"
"""The device that engines are asked on, unless they were fitted on others alone."""
_BATCH = {"batch": 8, "prompt_tokens": 512, "output_tokens": 64}
_LOAD = {
    "requests": {"count": 8, "prompt_tokens": 512, "output_tokens": 16},
    "arrival": {"process": "constant", "rate": 4},
}


def feature_cells(engine: str) -> Iterator[Cell]:
    """Yield the cell of every feature of an engine's newest release."""
    counts, device = published("features", engine), measured_device(engine)
    for feature in FEATURES:
        workload, answer = (_LOAD, _simulated) if feature.task == "serve" else (_BATCH, answered)
        question = feature.question(engine, device, workload)
        yield cell("features", engine, feature.name, question, answer, published=counts(feature.name))


def measured_device(engine: str) -> str:
    """Return a device on which the engine was fitted, the usual one if it is among them or nobody fitted it."""
    fitted = set_of(engine).get("constants", {}).get("fitted_devices") or [USUAL]
    return USUAL if USUAL in fitted else str(fitted[0])


def _simulated(scenario: Any) -> tuple[str, str]:
    engine, device = scenario.plan.engine, scenario.cluster.device
    evidence = simulate(scenario, intervals=False).evidence["framework"]
    return str(evidence), missing_measurements(engine.name, engine.version, device.name)


def _feature(name: str, plan: Question, **more: Any) -> Choice:
    """A feature; those that only a load shows are simulated."""
    task = "serve" if set(SERVING_ONLY).intersection(plan) else "generate"
    return Choice(name=name, plan=plan, **{"task": task, "model": DENSE, "devices": 1, **more})


def _degrees() -> Iterator[Choice]:
    yield _feature("tensor parallelism", {"tensor_parallel": 2}, devices=2)
    yield _feature("pipeline parallelism", {"pipeline_parallel": 2}, devices=2)
    yield _feature("attention data parallelism", {"data_parallel": 2}, devices=2, model=EXPERTS)
    spread = {"needs": {"tensor_parallel": 2}, "devices": 2, "model": EXPERTS}
    yield _feature("expert parallelism", {"expert_parallel": 2}, **spread)
    apart: Question = {"disaggregate": {"prefill": {"replicas": 1}, "decode": {"replicas": 1}}}
    yield _feature("disaggregation", apart, devices=2)


def _engine_formats() -> Iterator[Choice]:
    yield from each(_feature, "dtype", "dtype", operation.MODEL_DTYPES)
    for word in precision.QUANTIZATIONS:
        model = (
            FOUR_BIT_EXPERTS
            if word in precision.EXPERTS_ONLY
            else FULL_ROUTER
            if word in precision.ROUTER_DTYPES
            else DENSE
        )
        yield _feature(word, {"quantization": [word]}, model=model, devices=8 if model == FULL_ROUTER else 1)


def _scheduling() -> Iterator[Choice]:
    yield _feature("chunked prefill", {"chunked_prefill": True})
    yield _feature("no chunked prefill", {"chunked_prefill": False})
    yield _feature("prefix cache", {"prefix_cache": True}, prefix_tokens=256)
    yield _feature("CUDA graphs", {"cuda_graphs": True})
    yield _feature("no CUDA graphs", {"cuda_graphs": False})
    yield _feature("speculative decoding", {"speculative": {"tokens": 1, "acceptance": 0.75}})
    yield from each(_feature, "scheduler", "scheduler", get_args(Scheduler))
    for router in get_args(Router):
        yield _feature(f"router {router}", {"replicas": 2, "router": router}, devices=2)
    yield _feature("LoRA adapters", {"lora_adapters": 4})
    yield _feature(
        "cache tiers",
        {"kv_tiers": [{"name": "host", "bytes": "100 GB", "bandwidth": "50 GB/s"}]},
        needs={"prefix_cache": True},
    )
    yield _feature("autoscaling", {"autoscale": {"min": 1, "max": 2, "startup": "30 s"}}, devices=2)


FEATURES: tuple[Choice, ...] = (*_degrees(), *_engine_formats(), *_scheduling())
"""Everything that a plan of an engine may be told by, one at a time; values are those that the plan's types list."""


RANKS = 8
"""Devices of a collective, where a server holds as many."""
_HEADS = {"heads": 32, "kv_heads": 8, "head_dim": 128}
_PROMPT = {"batch": 1, "query_tokens": 2048, "context_tokens": 2048, **_HEADS}
_STEP = {"batch": 32, "query_tokens": 1, "context_tokens": 2048, **_HEADS}
_LATENT_STEP = {**_STEP, "heads": 128, "kv_heads": 1, "head_dim": 576, "value_dim": 512, "latent": True}
_EXPERTS = {"experts": 8, "n": 4096, "k": 4096, "per_token": 2}
_PRODUCTS: Mapping[str, Mapping[str, Any]] = {
    "matmul": {"operator": "matmul", "m": 4096, "n": 4096, "k": 4096},
    "matmul of few rows": {"operator": "matmul", "m": 16, "n": 4096, "k": 4096},
    "experts of prompts": {"operator": "grouped_matmul", "rows": 8192, **_EXPERTS},
    "experts of decoding": {"operator": "grouped_matmul", "rows": 64, **_EXPERTS},
}
_ATTENTION: Mapping[str, Mapping[str, Any]] = {
    "attention of prompts": _PROMPT,
    "attention of decoding": _STEP,
    "latent attention of decoding": _LATENT_STEP,
}


_PARTS: Mapping[str, str] = {
    **dict.fromkeys(("matmul", "matmul of few rows"), "matmul"),
    **dict.fromkeys(("experts of prompts", "experts of decoding"), "grouped"),
    "attention of prompts": "prefill_attention",
    "attention of decoding": "decode_attention",
    "latent attention of decoding": "latent_decode_attention",
}
"""The part of a calibration with an operator's constants; those of the others are element-wise."""


def operator_cells(device: Device) -> Iterator[Cell]:
    """Yield the cell of every operator and format on a device, with why it is not calibrated."""
    for what, asked in groupby(operator_questions(device), key=lambda operator_question: operator_question[0]):
        cells = [cell("operators", device.name, what, question, _answer, dtype=dtype) for _, dtype, question in asked]
        measured = [each.dtype for each in cells if each.status == "calibrated"]
        yield from (replace(each, why=each.why or _why(each, device, measured)) for each in cells)


def _why(cell_of_format: Cell, device: Device, measured: Sequence[str]) -> str:
    """What keeps an operator in one format from being calibrated; ``measured`` are its calibrated formats."""
    if cell_of_format.status == "calibrated":
        return ""
    if cell_of_format.status == "datasheet-only":
        return "the operator was measured neither on the device nor on a relative of it"
    if measured:
        return f"measured in {', '.join(measured)} alone"
    if cell_of_format.what in COLLECTIVES:
        return "constants are those of a relative, of links in general or of another collective"
    part = _PARTS.get(cell_of_format.what, "elementwise")
    family = family_with(device, part)
    if family is None or is_own(device, family, part):
        return "other operators, sizes or formats were measured"
    return f"constants are those of a relative, {family}"


def operator_questions(device: Device) -> Iterator[tuple[str, str, Question]]:
    """Yield every operator, its format, and the scenario that asks for it."""
    half = next(
        dtype for dtype in (*reversed(operation.MODEL_DTYPES), *operation.PLAIN_DTYPES) if dtype in device.peak_flops
    )
    for what, sizes in _PRODUCTS.items():
        for name, typed in _product_formats(half).items():
            yield what, name, _on(device, {**sizes, **typed})
    for what, sizes in _ATTENTION.items():
        for name, typed in _caches(half).items():
            yield what, name, _on(device, {"operator": "attention", **sizes, **typed})
    for kernel in operation.ELEMENTWISE:
        for dtype in operation.PLAIN_DTYPES:
            yield kernel, dtype, _on(device, {"operator": kernel, "elements": 2**24, "dtype": dtype})
    for direction in operation.COPY_DIRECTIONS[1:]:
        copy = {"operator": "copy", "elements": 2**24, "dtype": half, "direction": direction}
        yield f"copy {direction}", half, _on(device, copy)
    for collective in COLLECTIVES:
        yield collective, "", _on(device, {"operator": collective, "bytes": 2**26}, RANKS)


def _product_formats(half: str) -> Mapping[str, Mapping[str, str]]:
    """Formats of products: those that a dtype stands for, and others by name, of products between ``half`` types."""
    stood_for = {dtype: {"dtype": dtype} for dtype in operation.DTYPE_FORMATS}
    named = [
        name for name in operation.FORMATS if name not in (*operation.DTYPE_FORMATS, *operation.DTYPE_FORMATS.values())
    ]
    return {**stood_for, **{name: {"dtype": half, "format": name} for name in named}}


def _caches(half: str) -> Mapping[str, Mapping[str, str]]:
    """Types of attention, and those of its cache where that has another."""
    plain = {dtype: {"dtype": dtype} for dtype in operation.PLAIN_DTYPES}
    return {**plain, **{f"{half}+kv-{kept}": {"dtype": half, "kv_dtype": kept} for kept in operation.CACHE_DTYPES}}


def _on(device: Device, workload: Mapping[str, Any], count: int = 1) -> Question:
    return {"cluster": f"{count}x {device.name}", "workload": {"task": "operator", **workload}}


def _answer(scenario: Any) -> tuple[str, str]:
    profile = predict_operator(scenario)
    return str(profile.evidence), " ".join(profile.warnings)


KINDS: Mapping[Table, str] = {"operators": "devices", "techniques": "frameworks", "features": "engines"}
"""The catalog's kind of what each table's rows are of."""


def subjects() -> Iterator[tuple[Table, str]]:
    """Yield every table and name of it: devices, frameworks and engines; a name may be both of the latter."""
    return ((table, name) for table, kind in KINDS.items() for name in names(kind))


def coverage(chosen: str | None = None, progress: Progress = SILENT) -> list[Cell]:
    """Return the cells of the devices, frameworks and engines of a name or a pattern with ``*``; of all without one.

    If stopped, those that are done.

    Raises:
        InputError: There is none of that name.
    """
    wanted = [(table, name) for table, name in subjects() if chosen is None or fnmatchcase(name, chosen)]
    if not wanted:
        known = sorted({name for _, name in subjects()})
        allowed = "a device, framework or engine of the catalog, or a pattern with *"
        raise InputError(f"--coverage: '{chosen}' is unknown; allowed: {allowed}{nearest(chosen, known)}")
    cells: list[Cell] = []
    for table, name in progress.over(wanted, "predicting"):
        cells += cells_of(table, name)
    return cells


def cells_of(table: Table, name: str) -> Iterator[Cell]:
    """Yield the cells of one device, framework or engine."""
    match table:
        case "operators":
            return operator_cells(read_device(name))
        case "techniques":
            return technique_cells(name)
        case "features":
            return feature_cells(name)


__all__ = ["STATUSES", "Cell", "Status", "coverage", "subjects"]
