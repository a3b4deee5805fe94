"""What a step tells of its operators' surroundings: the host time of layers and passes, and how cold caches are.

Tensors of two tiny models are so small that a step is calls alone. The deeper model has more of a layer's calls and as
many of a pass's, and what the operators' constants already say of both is taken off. A third model fills the caches
several times: its passes lie between those of operators in the cache and those of operators driven out of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.cost.processor_constants import ProcessorConstants
from sightline.cost.processor_pricing import framework_calls, missing_share, price_on_processor, working_bytes
from sightline.cost.training_constants import TrainingConstants
from sightline.loading import scenario_from_mapping
from sightline.program import Operator, write_out
from sightline.scenario import Scenario

SUITE = "dispatch"
"""Suite that their runs bear."""
DEPTHS = (2, 8)
PASSES = ("forward", "backward")
FRAMEWORK_BYTES = "framework_bytes"
KNOWN_MISSING = 0.5
"""Share of a step's bytes out of the cache from which on its passes tell what that costs."""


def dispatch_scenarios(dtype: str) -> list[Scenario]:
    """Return the training steps on this machine of the two tiny models and of one that no cache holds."""
    return [tiny_model(layers, dtype) for layers in DEPTHS] + [large_model(dtype)]


def tiny_model(layers: int, dtype: str, shards: int = 1, zero_stage: int = 0) -> Scenario:
    """Return a step of a model so small that it is calls alone, its parameters shared out between ``shards`` processes."""
    name = f"dispatch of {layers} layers"
    return _scenario(name, (32, layers, 2, 64, 64), (8, 1), dtype, shards, zero_stage)


def large_model(dtype: str, shards: int = 1, zero_stage: int = 0) -> Scenario:
    """The same of a model that fills the caches several times."""
    return _scenario("cold caches", (320, 6, 5, 864, 5000), (192, 2), dtype, shards, zero_stage)


def _scenario(
    name: str,
    shape: tuple[int, int, int, int, int],
    tokens: tuple[int, int],
    dtype: str,
    shards: int,
    zero_stage: int,
) -> Scenario:
    """Hidden size, layers, heads, width of the MLP, vocabulary; tokens of a sample, samples."""
    hidden, layers, heads, width, vocabulary = shape
    length, samples = tokens
    sharded = {"framework": "fsdp", "data_parallel": shards, "zero_stage": zero_stage}
    return scenario_from_mapping(
        {
            "name": f"{name}, ZeRO-{zero_stage}" if shards > 1 else name,
            "model": {
                "model_type": "llama",
                "hidden_size": hidden,
                "num_hidden_layers": layers,
                "num_attention_heads": heads,
                "num_key_value_heads": heads,
                "intermediate_size": width,
                "vocab_size": vocabulary,
                "max_position_embeddings": 256,
            },
            "cluster": f"{shards}x this-machine" if shards > 1 else "this-machine",
            "workload": {"task": "pretrain", "sequence_length": length, "global_batch": samples * shards},
            "plan": {
                "dtype": dtype,
                "micro_batch": samples,
                **(sharded if shards > 1 else {"framework": "transformers"}),
            },
        }
    )


def undisturbed_phases(samples: Sequence[Mapping[str, float]], contended: bool) -> dict[str, float]:
    """Return the phases' median seconds; where other processes had the machine, which only adds, 10th percentiles."""
    quantile = 0.1 if contended else 0.5
    phases = [column for column in samples[0] if column.endswith("_s") and column != "step_time_s"]
    return {name.removesuffix("_s"): float(np.quantile([s[name] for s in samples], quantile)) for name in phases}


def module_times(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the seconds of a step's modules under ``forward layer qkv`` and the like."""
    found: dict[str, float] = {}
    for row in rows:
        name = f"{row['phase']} {row['block']} {row['module']}"
        found[name] = found.get(name, 0.0) + float(row["time_s"])
    return found


def process_memory(held: Mapping[str, float]) -> dict[str, float]:
    """Return the bytes of a tiny model's process beside the model: interpreter, libraries, what its first step set up."""
    states = sum(held[part] for part in ("weights", "gradients", "optimizer"))
    return {FRAMEWORK_BYTES: held["total"] - states}


def dispatch_calls(
    phases: Sequence[Mapping[str, float]],
    scenarios: Sequence[Scenario],
    machine: ProcessorConstants,
    constants: TrainingConstants,
) -> dict[str, float]:
    """Return seconds of a layer's and a pass's own calls, forward and backward, from the models' measured phases."""
    few, many = DEPTHS
    calls = {}
    for name in PASSES:
        gaps = [
            phase[name] - _predicted(scenario, name, machine, constants)
            for phase, scenario in zip(phases[: len(DEPTHS)], scenarios[: len(DEPTHS)], strict=True)
        ]
        layer_s = max((gaps[1] - gaps[0]) / (many - few), 0.0)
        calls[f"layer {name}"] = float(f"{layer_s:.3g}")
        calls[f"pass {name}"] = float(f"{max(gaps[0] - few * layer_s, 0.0):.3g}")
    return calls


def call_weights(
    phases: Mapping[str, float], scenario: Scenario, machine: ProcessorConstants, constants: TrainingConstants
) -> dict[str, dict[str, float]]:
    """Return by pass and module how much longer the layers' own code takes around a call there than on average.

    From the modules' times in ``phases`` (``forward layer qkv``) of a tiny model, of which the constants say the operators;
    nothing of a pass whose modules were not all told apart.
    """
    program = write_out(scenario)
    prices = price_on_processor(program, scenario, constants, machine)
    (layer,) = program.layers
    found: dict[str, dict[str, float]] = {}
    for way in PASSES:
        operators: Sequence[Operator] = getattr(layer, way)
        modules = dict.fromkeys(op.module for op in operators)
        if not all(f"{way} layer {module}" in phases for module in modules):
            continue
        own, calls = dict.fromkeys(modules, 0.0), dict.fromkeys(modules, 0.0)
        for op in operators:
            own[op.module] += float(op.count * prices[id(op)].time_s)
            calls[op.module] += float(np.max(op.count)) * framework_calls(op)
        gaps = {m: max(phases[f"{way} layer {m}"] / layer.layers - own[m], 0.0) for m in modules}
        mean = sum(gaps.values()) / sum(calls.values())
        if mean > 0:
            found[way] = {m: float(f"{gap / max(calls[m], 1.0) / mean:.3g}") for m, gap in gaps.items()}
    return found


def cold_shares(
    phases: Mapping[str, float], scenario: Scenario, machine: ProcessorConstants, constants: TrainingConstants
) -> dict[str, float]:
    """Return the shares of what operators lose by cold caches that the third model's passes lost.

    Empty where this machine's caches hold half of what its step touches: then it says nothing.
    """
    if missing_share(working_bytes(write_out(scenario), scenario), scenario.cluster.device) < KNOWN_MISSING:
        return {}
    found = {}
    for name in PASSES:
        warm, cold = (
            _predicted(scenario, name, replace(machine, cold_shares=dict.fromkeys(PASSES, share)), constants)
            for share in (0.0, 1.0)
        )
        share = (phases[name] - warm) / (cold - warm)
        found[name] = float(f"{min(max(share, 0.0), 1.5):.3g}")
    return found


def _predicted(scenario: Scenario, phase: str, machine: ProcessorConstants, constants: TrainingConstants) -> float:
    """Seconds of one pass by the operators' constants."""
    program = write_out(scenario)
    prices = price_on_processor(program, scenario, constants, machine)

    def total(operators: Sequence[Operator]) -> float:
        return sum(float(op.count * prices[id(op)].time_s) for op in operators)

    return sum(block.layers * total(getattr(block, phase)) for block in program.blocks)
