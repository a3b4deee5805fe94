"""Features of inference engines: what a small batch or load with one of them is answered with, or refused."""

from collections.abc import Iterator
from typing import Any, get_args

from sightline.prediction.generation.engine_constants import missing_measurements, set_of
from sightline.scenario.generation import SERVING_ONLY, Router, Scheduler
from sightline.scenario.operation import MODEL_DTYPES
from sightline.scenario.precision import EXPERTS_ONLY, QUANTIZATIONS, ROUTER_DTYPES
from sightline.simulation.simulate import simulate
from sightline.validation.coverage.cell import Cell, Question, cell
from sightline.validation.coverage.choice import Choice, each
from sightline.validation.coverage.published import published
from sightline.validation.coverage.techniques import answered

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
        asked = feature.question(engine, device, workload)
        yield cell("features", engine, feature.name, asked, answer, published=counts(feature.name))


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


def _formats() -> Iterator[Choice]:
    yield from each(_feature, "dtype", "dtype", MODEL_DTYPES)
    for word in QUANTIZATIONS:
        model = FOUR_BIT_EXPERTS if word in EXPERTS_ONLY else FULL_ROUTER if word in ROUTER_DTYPES else DENSE
        yield _feature(word, {"quantization": [word]}, model=model, devices=8 if model == FULL_ROUTER else 1)


def _scheduling() -> Iterator[Choice]:
    yield _feature("chunked prefill", {"chunked_prefill": True})
    yield _feature("no chunked prefill", {"chunked_prefill": False})
    yield _feature("prefix cache", {"prefix_cache": True}, prefix_tokens=256)
    yield _feature("CUDA graphs", {"cuda_graphs": True})
    yield _feature("no CUDA graphs", {"cuda_graphs": False})
    yield _feature("speculative decoding", {"speculative": {"tokens": 1, "acceptance": 0.75}})
    yield from each(_feature, "scheduler", "scheduler", filter(None, get_args(Scheduler)))
    for router in get_args(Router):
        yield _feature(f"router {router}", {"replicas": 2, "router": router}, devices=2)
    yield _feature("LoRA adapters", {"lora_adapters": 4})
    yield _feature(
        "cache tiers",
        {"kv_tiers": [{"name": "host", "bytes": "100 GB", "bandwidth": "50 GB/s"}]},
        needs={"prefix_cache": True},
    )
    yield _feature("autoscaling", {"autoscale": {"min": 1, "max": 2, "startup": "30 s"}}, devices=2)


FEATURES: tuple[Choice, ...] = (*_degrees(), *_formats(), *_scheduling())
"""Everything that a plan of an engine may be told by, one at a time; values are those that the plan's types list."""
