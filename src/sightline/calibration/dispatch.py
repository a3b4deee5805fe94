"""What a model's own code takes around its operators: the host time of layers and passes, from two tiny models.

Their tensors are so small that a step is calls alone. The deeper model has more of a layer's calls and as many of a
pass's, and what the operators' constants already say of both is taken off.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sightline.cost.processor_constants import ProcessorConstants
from sightline.cost.processor_pricing import price_on_processor
from sightline.cost.training_constants import TrainingConstants
from sightline.loading import scenario_from_mapping
from sightline.program import Operator, write_out
from sightline.scenario import Scenario

SUITE = "dispatch"
"""Suite that their runs bear."""
DEPTHS = (2, 8)
PASSES = ("forward", "backward")
FRAMEWORK_BYTES = "framework_bytes"


def dispatch_scenarios(dtype: str) -> list[Scenario]:
    """Return the two tiny models' training steps on this machine."""
    return [scenario_from_mapping(_mapping(layers, dtype)) for layers in DEPTHS]


def _mapping(layers: int, dtype: str) -> dict[str, Any]:
    return {
        "name": f"dispatch of {layers} layers",
        "model": {
            "model_type": "llama",
            "hidden_size": 32,
            "num_hidden_layers": layers,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "intermediate_size": 64,
            "vocab_size": 64,
            "max_position_embeddings": 64,
        },
        "cluster": "this-machine",
        "workload": {"task": "pretrain", "sequence_length": 8, "global_batch": 1},
        "plan": {"framework": "transformers", "dtype": dtype, "micro_batch": 1},
    }


def undisturbed_phases(samples: Sequence[Mapping[str, float]], contended: bool) -> dict[str, float]:
    """Return the passes' median seconds; where other processes had the machine, which only adds, 10th percentiles."""
    quantile = 0.1 if contended else 0.5
    return {name: float(np.quantile([s[f"{name}_s"] for s in samples], quantile)) for name in PASSES}


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
            for phase, scenario in zip(phases, scenarios, strict=True)
        ]
        layer_s = max((gaps[1] - gaps[0]) / (many - few), 0.0)
        calls[f"layer {name}"] = float(f"{layer_s:.3g}")
        calls[f"pass {name}"] = float(f"{max(gaps[0] - few * layer_s, 0.0):.3g}")
    return calls


def _predicted(scenario: Scenario, phase: str, machine: ProcessorConstants, constants: TrainingConstants) -> float:
    """Seconds of one pass by the operators' constants."""
    program = write_out(scenario)
    prices = price_on_processor(program, scenario, constants, machine)

    def total(operators: Sequence[Operator]) -> float:
        return sum(float(op.count * prices[id(op)].time_s) for op in operators)

    return sum(block.layers * total(getattr(block, phase)) for block in program.blocks)
