"""Host time, cold caches and the cost of sharding, fitted to this machine's own training steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import nnls

from sightline.calibration.manifest import manifest
from sightline.cost.collectives.libraries import CollectiveConstants, cluster_collectives
from sightline.cost.device_model import KernelChoice
from sightline.cost.prices import OperatorCost, Prices
from sightline.cost.processor import ATTENTION, ELEMENTWISE, PRODUCTS, ProcessorModel, framework_calls, kind_of
from sightline.cost.processor_constants import ProcessorConstants, ShardingConstants
from sightline.loading import generation_from_mapping, scenario_from_mapping
from sightline.prediction.generation.phases import price_generation
from sightline.prediction.generation.replica import price_passes
from sightline.prediction.pass_times import DECODING, embedding_and_head, working_bytes
from sightline.prediction.training.constants import TrainingConstants
from sightline.prediction.training.data_parallel import Replica, data_parallel_time, replication
from sightline.prediction.training.priced import step_prices
from sightline.prediction.training.stages import program_sizes, stage_contents
from sightline.prediction.training.update import TENSORS_OF_EMBEDDING_AND_HEAD, TENSORS_OF_LAYER, elementwise_s
from sightline.program import Collective, Operator, Program, write_out
from sightline.quantities import significant
from sightline.scenario import Device, GenerationScenario, Scenario

DISPATCH_SUITE = "dispatch"
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


SHARDING_SUITE = "sharding"
"""Suite that their runs bear."""
PROCESSES = 2
LARGE = -2
"""Where the model that no cache holds stands among the scenarios, with ZeRO-2."""
NAMES = tuple(f.name for f in fields(ShardingConstants))
COMMUNICATION, OPTIMIZER = "communication_exposed", "optimizer"
KINDS: Mapping[str, Sequence[str]] = {
    ELEMENTWISE: ("attention norm", "rope", "mlp norm"),
    ATTENTION: ("attention core",),
    PRODUCTS: ("qkv", "output projection", "mlp"),
}
"""Modules whose time is mostly of one kind of operator; what is not has been told by the kinds before."""
Measured = Mapping[str, float]
"""Seconds of a step's phases (communication_exposed, optimizer) and of its modules (forward layer qkv)."""


def sharding_scenarios(dtype: str) -> list[Scenario]:
    """Return the training steps of two processes that share this machine and a model's parameters."""
    asked = ((FEW, 2), (MANY, 2), (MANY, 3), (COLD, 2), (COLD, 3))
    return [measured_step(model, dtype, PROCESSES, stage) for model, stage in asked]


def sharding_constants(
    steps: Sequence[Measured],
    scenarios: Sequence[Scenario],
    machine: ProcessorConstants,
    library: CollectiveConstants,
    constants: TrainingConstants,
) -> dict[str, float]:
    """Return what sharding takes but for the collectives that ``library`` knows, as the steps of ``scenarios`` tell it.

    Every constant counts in proportion in what is predicted, so that what is left of the measured seconds is a sum of
    them; none is below zero, and each step weighs alike.
    """
    bare = replace(machine, sharding=None)
    alone = [
        replace(bare, sharding=ShardingConstants(**{f.name: float(f.name == name) for f in fields(ShardingConstants)}))
        for name in NAMES
    ]

    def told(phase: str, seconds: Callable[[Scenario, ProcessorConstants], float]) -> dict[str, float]:
        measured = np.array([step[phase] for step in steps])
        known = np.array([seconds(scenario, bare) for scenario in scenarios])
        each = np.array([[seconds(scenario, one) for one in alone] for scenario in scenarios]) - known[:, None]
        used = each.any(axis=0)
        found = nnls(each[:, used] / measured[:, None], np.maximum(measured - known, 0.0) / measured)[0]
        return dict(zip(np.array(NAMES)[used].tolist(), (significant(x) for x in found), strict=True))

    return told(COMMUNICATION, partial(_communication_s, library=library, constants=constants)) | told(
        OPTIMIZER, _update_s
    )


def fewer_cores(
    step: Measured, scenario: Scenario, machine: ProcessorConstants, constants: TrainingConstants
) -> dict[str, dict[str, float]]:
    """Return by pass and kind of operator how long ``step``'s modules took over what a share of the cores predicts.

    Threads of one process wait for each other and for what the others made; single ones have it in their own cache.
    """
    program = write_out(scenario)
    (layer,) = program.layers
    even = replace(machine, fewer_cores={})
    own, whole = (prices_with(program, scenario, constants, m) for m in (operators_alone(even), even))
    found: dict[str, dict[str, float]] = {way: {} for way in PASSES}
    for way in PASSES:
        operators: Sequence[Operator] = getattr(layer, way)
        for kind, modules in KINDS.items():
            here = [op for op in operators if op.module in modules and not isinstance(op, Collective)]
            around_s = sum(float(op.count * (whole[id(op)].time_s - own[id(op)].time_s)) for op in here)
            by_kind = dict.fromkeys(KINDS, 0.0)
            for op in here:
                by_kind[kind_of(op)] += float(op.count * own[id(op)].time_s)
            others_s = sum(by_kind[other] * factor for other, factor in found[way].items())
            measured_s = sum(step[f"{way} layer {module}"] for module in modules) / layer.count
            found[way][kind] = significant(max(measured_s - around_s - others_s, 0.0) / by_kind[kind])
    return found


def _communication_s(
    scenario: Scenario, machine: ProcessorConstants, library: CollectiveConstants, constants: TrainingConstants
) -> float:
    """Seconds of a step's collectives and of sharding's own code."""
    plan, cluster = scenario.plan, scenario.cluster
    stage = stage_contents(scenario).first
    program = program_sizes(write_out(scenario), plan)
    sizes = program.of(stage)
    replica = Replica(
        parameters=sizes.trained,
        stored_bytes=sizes.stored,
        embedding_and_head_bytes=program.embedding_and_head_bytes(stage),
        layers=stage.layers,
        forward_s=0.0,
        backward_s=0.0,
        micro_batches=1.0,
    )
    on = replication(plan, cluster, library, constants, model_of(machine, scenario))
    return float(data_parallel_time(replica, on).exposed_s)


def _update_s(scenario: Scenario, machine: ProcessorConstants) -> float:
    """Seconds of a step's update."""
    program = write_out(scenario)
    stage = stage_contents(scenario).first
    parameters = program_sizes(program, scenario.plan).of(stage).trained.total / scenario.plan.shards
    traffic_bytes = parameters * scenario.plan.framework.kernels.optimizer_traffic
    return float(elementwise_s(scenario, program, model_of(machine, scenario), stage.layers, traffic_bytes))
