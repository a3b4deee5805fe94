"""What a step tells of its operators' surroundings: the host time of layers and passes, and how cold caches are.

Tensors of two tiny models are so small that a step is calls alone. The deeper model has more of a layer's calls and as
many of a pass's, and what the operators' constants already say of both is taken off. A third model fills the caches
several times: its passes lie between those of operators in the cache and those of operators driven out of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.calibration.manifest import manifest
from sightline.cost.collectives.families import cluster_collectives
from sightline.cost.device_model import KernelChoice
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices
from sightline.cost.processor.constants import ProcessorConstants
from sightline.cost.processor.model import ProcessorModel
from sightline.cost.processor.prices import framework_calls
from sightline.loading import generation_from_mapping, scenario_from_mapping
from sightline.prediction.eager_calls import DECODING, embedding_and_head, working_bytes
from sightline.prediction.generation.phases import price_generation
from sightline.prediction.generation.worker import price_passes
from sightline.prediction.training.constants import TrainingConstants
from sightline.prediction.training.priced import step_prices
from sightline.prediction.training.update import TENSORS_OF_EMBEDDING_AND_HEAD, TENSORS_OF_LAYER
from sightline.program import Operator, Program, write_out
from sightline.quantities import significant
from sightline.scenario import Device, GenerationScenario, Scenario

SUITE = "dispatch"
"""Suite that their runs bear."""
MODELS: Mapping[str, Mapping[str, Any]] = manifest("processor")["models"]
FEW, MANY, COLD = MODELS
"""Names of the models: the two tiny ones, and the one that no cache holds."""
DEPTHS = tuple(MODELS[name]["keys"]["num_hidden_layers"] for name in (FEW, MANY))
PASSES = ("forward", "backward")
FRAMEWORK_BYTES = "framework_bytes"
KNOWN_MISSING = 0.5
"""Share of a step's bytes out of the cache from which on its passes tell what that costs."""


def dispatch_scenarios(dtype: str) -> list[Scenario]:
    """Return the training steps on this machine of the two tiny models and of one that no cache holds."""
    return [measured_step(name, dtype) for name in MODELS]


def dispatch_generations(dtype: str) -> list[GenerationScenario]:
    """Return answers by the deeper of the tiny models, and by the one that no cache holds."""
    found = []
    for model, name in ((MANY, f"decoding of {DEPTHS[-1]} layers"), (COLD, "cold decoding")):
        told = MODELS[model]
        sizes = {"batch": told["samples"], "prompt_tokens": told["tokens"], "output_tokens": 32}
        found.append(generation_from_mapping(_asked(name, model, {"task": "generate", **sizes}, dtype)))
    return found


def measured_step(model: str, dtype: str, shards: int = 1, zero_stage: int = 0) -> Scenario:
    """Return a training step of one of the models, its parameters sharded over ``shards`` processes."""
    told = MODELS[model]
    sizes = {"sequence_length": told["tokens"], "global_batch": told["samples"] * shards}
    name = f"{model}, ZeRO-{zero_stage}" if shards > 1 else model
    mapping = _asked(name, model, {"task": "pretrain", **sizes}, dtype)
    mapping["plan"]["micro_batch"] = told["samples"]
    if shards > 1:
        mapping["cluster"] = f"{shards}x this-machine"
        mapping["plan"] |= {"framework": "fsdp", "data_parallel": shards, "zero_stage": zero_stage}
    return scenario_from_mapping(mapping)


def _asked(name: str, model: str, workload: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    return {
        "name": name,
        "model": dict(MODELS[model]["keys"]),
        "cluster": "this-machine",
        "workload": workload,
        "plan": {"framework": "transformers", "dtype": dtype},
    }


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
    """Return the bytes of a tiny model's process without the model: interpreter, libraries, first step's setup."""
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
        calls[f"layer {name}"] = significant(layer_s)
        calls[f"pass {name}"] = significant(max(gaps[0] - few * layer_s, 0.0))
    return calls | _update_calls(phases, scenarios)


def _update_calls(phases: Sequence[Mapping[str, float]], scenarios: Sequence[Scenario]) -> dict[str, float]:
    """Seconds of an optimizer's step by itself and for each tensor; none where it was not measured."""
    measured = [phase["optimizer"] for phase in phases[: len(DEPTHS)] if "optimizer" in phase]
    if len(measured) < len(DEPTHS):
        return {}
    tensors = [TENSORS_OF_LAYER * s.model.layers + TENSORS_OF_EMBEDDING_AND_HEAD for s in scenarios[: len(DEPTHS)]]
    each_s = max((measured[1] - measured[0]) / (tensors[1] - tensors[0]), 0.0)
    once_s = max(measured[0] - tensors[0] * each_s, 0.0)
    return {"update": significant(once_s), "update tensor": significant(each_s)}


def call_weights(
    phases: Mapping[str, float], scenario: Scenario, machine: ProcessorConstants, constants: TrainingConstants
) -> dict[str, dict[str, float]]:
    """Return by block and module how much longer the model's own forward code takes around a call than on average.

    From the modules' times in ``phases`` (``forward layer qkv``) of a tiny model, of which the constants say the
    operators; nothing of a block whose modules were not all told apart.
    """
    program = write_out(scenario)
    prices = prices_with(program, scenario, constants, operators_alone(machine))
    (layer,) = program.layers
    found = {}
    for name, blocks in _places(layer.forward, program.embedding.forward, program.head.forward).items():
        passes = layer.count if name == "layer" else 1.0
        gaps = _gaps(blocks, phases, "forward", float(passes), prices)
        if gaps is not None and sum(gaps.values()) > 0:
            found[name] = _weights(blocks, {m: max(gap, 0.0) for m, gap in gaps.items()})
    return found


def decode_calls(
    phases: Sequence[Mapping[str, float]], dtype: str, device: Device, machine: ProcessorConstants
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return seconds of a layer's and a pass's own calls where no graph is recorded, and how they lie by module.

    From the modules' times (``decode layer qkv``) of `dispatch_generations`: warm those of one so small that a token is
    calls alone, cold those of one whose weights drive everything else out of the cores' caches. What operators take
    less than by themselves is counted against the code around them.
    """
    calls: dict[str, float] = {}
    weights: dict[str, dict[str, float]] = {}
    for state, modules, scenario in zip(DECODING, phases, dispatch_generations(dtype), strict=False):
        priced = price_generation(scenario)
        decode = priced.decode.program
        model = ProcessorModel(device=device, kernels=KernelChoice(dtype=dtype), given=operators_alone(machine))
        prices = price_passes([decode], replace(priced.worker.ranks, device_model=model))
        (layer,) = decode.layers
        tokens = float(scenario.workload.output_tokens) - 1.0
        for name, blocks in _places(layer.operators, *embedding_and_head(decode)).items():
            passes = tokens * (layer.count if name == "layer" else 1.0)
            gaps = _gaps(blocks, modules, "decode", passes, prices)
            if gaps is not None and sum(gaps.values()) > 0:
                calls[f"{name} {state}"] = significant(sum(gaps.values()))
                weights[f"{name} {state}"] = _weights(blocks, gaps)
    return calls, weights


def prices_with(
    program: Program, scenario: Scenario, constants: TrainingConstants, machine: ProcessorConstants
) -> Prices:
    """Return the prices of a step's operators with a machine's constants in place of the catalog's."""
    return step_prices(program, scenario, constants, model_of(machine, scenario), cluster_collectives(scenario.cluster))


def model_of(machine: ProcessorConstants, scenario: Scenario) -> ProcessorModel:
    """Return the model of the scenario's device with a machine's constants in place of the catalog's."""
    return ProcessorModel(
        device=scenario.cluster.device, kernels=KernelChoice(dtype=scenario.plan.dtype), given=machine
    )


def operators_alone(machine: ProcessorConstants) -> ProcessorConstants:
    """Return a machine's constants without the calls of layers and passes: operators, with what recording adds."""
    own = {name: s for name, s in machine.calls.items() if not name.startswith(("layer", "pass"))}
    return replace(machine, calls=own)


Blocks = Mapping[str, Sequence[Operator]]
"""Operators by the block they stand in."""


def _places(
    layer: Sequence[Operator], embedding: Sequence[Operator], head: Sequence[Operator]
) -> dict[str, dict[str, Sequence[Operator]]]:
    return {"layer": {"layer": layer}, "pass": {"embedding": embedding, "head": head}}


def _gaps(
    blocks: Blocks,
    phases: Mapping[str, float],
    phase: str,
    passes: float,
    prices: Mapping[int, OperatorCost],
) -> dict[str, float] | None:
    """Seconds of a pass that each module takes beyond its operators; None where not all were told apart."""
    found: dict[str, float] = {}
    for block, operators in blocks.items():
        for module in dict.fromkeys(op.module for op in operators if framework_calls(op) > 0):
            if f"{phase} {block} {module}" not in phases:
                return None
            own = sum(float(op.count * prices[id(op)].time_s) for op in operators if op.module == module)
            found[module] = phases[f"{phase} {block} {module}"] / passes - own
    return found


def _weights(blocks: Blocks, gaps: Mapping[str, float]) -> dict[str, float]:
    """How much longer than on average a call's surroundings take in each module."""
    by_module = dict.fromkeys(gaps, 0.0)
    for op in (op for operators in blocks.values() for op in operators if op.module in gaps):
        by_module[op.module] += float(np.max(op.count)) * framework_calls(op)
    mean = sum(gaps.values()) / sum(by_module.values())
    return {m: significant(gap / by_module[m] / mean) for m, gap in gaps.items()}


def cold_shares(
    phases: Mapping[str, float], scenario: Scenario, machine: ProcessorConstants, constants: TrainingConstants
) -> dict[str, float]:
    """Return the shares of what operators lose by cold caches that the third model's passes lost.

    Empty where this machine's caches hold half of what its step touches: then it says nothing.
    """
    if model_of(machine, scenario).missing_share(working_bytes(write_out(scenario), scenario)) < KNOWN_MISSING:
        return {}
    found = {}
    for name in PASSES:
        warm, cold = (
            _predicted(scenario, name, replace(machine, cold_shares=dict.fromkeys(PASSES, share)), constants)
            for share in (0.0, 1.0)
        )
        share = (phases[name] - warm) / (cold - warm)
        found[name] = significant(min(max(share, 0.0), 1.5))
    return found


def _predicted(scenario: Scenario, phase: str, machine: ProcessorConstants, constants: TrainingConstants) -> float:
    """Seconds of one pass by the operators' constants."""
    program = write_out(scenario)
    prices = prices_with(program, scenario, constants, machine)

    def total(operators: Sequence[Operator]) -> float:
        return sum(float(op.count * prices[id(op)].time_s) for op in operators)

    return sum(block.count * total(getattr(block, phase)) for block in program.blocks)
