"""How far two scenarios are apart: near ones have in common what effects leave of their errors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sightline.catalog import entry
from sightline.prediction.anchoring.timed import Answered, Timed
from sightline.quantities import Number
from sightline.scenario import Model, Scenario

DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
COUNTED_IN_TRAINING: Sequence[str] = (*DEGREES, "context_parallel", "micro_batch")
COUNTED_IN_GENERATION: Sequence[str] = (*DEGREES, "replicas")
CHOSEN_IN_TRAINING: Sequence[str] = (
    *("zero_stage", "sequence_parallel", "recompute", "attention", "dtype", "quantization", "adapter"),
    *("offload", "optimizer", "compile", "virtual_stages", "schedule"),
)
CHOSEN_IN_GENERATION: Sequence[str] = (
    *("dtype", "quantization", "chunked_prefill", "cuda_graphs"),
    *("speculative", "disaggregate"),
)


def likeness(anchor: Timed[Any], scenario: Answered, quantity: str) -> Number:
    """Return the correlation of what effects leave of two steps' errors: exp(-distance).

    A factor of two in a number counts one ``doublings``-th, another choice one ``choices``-th (the catalog's
    ``training/constants``). Plans of ``scenario`` may be arrays.
    """
    scales = entry("training", "constants")["anchors"]
    mine, other = counted(anchor.scenario), counted(scenario)
    doublings: Number = sum(np.abs(np.log2(1.0 * other[key] / mine[key])) for key in mine)
    chosen_before, chosen = chosen_of(anchor.scenario), chosen_of(scenario)
    changed = sum(chosen_before[key] != chosen[key] for key in chosen) + (anchor.quantity != quantity)
    similar: Number = np.exp(-doublings / scales["doublings"] - changed / scales["choices"])
    return similar


def layer_kinds(model: Model) -> set[str]:
    """Return what the layers of a model are made of, in words."""
    kinds = {"experts": "experts", "latent": "latent attention", "linear": "linear attention"}
    kinds |= {"state_space": "state-space layers", "sparse": "sparse attention", "compressed": "compressed attention"}
    return {word for name, word in kinds.items() if getattr(model, name, None) is not None}


def counted(scenario: Answered) -> dict[str, Any]:
    """Return the numbers of a scenario that set plans apart by their ratio."""
    model, work = scenario.model, scenario.workload
    if isinstance(scenario, Scenario):
        fields, sizes = COUNTED_IN_TRAINING, {"tokens": float(np.max(scenario.workload.sequence_length))}
    else:
        fields = COUNTED_IN_GENERATION
        sizes = {key: getattr(work, key) for key in ("batch", "prompt_tokens", "output_tokens")}
    degrees = {key: getattr(scenario.plan, key) for key in fields}
    return degrees | sizes | {"layers": model.layers, "width": model.hidden_size, "devices": scenario.cluster.devices}


def chosen_of(scenario: Answered) -> Mapping[str, str]:
    """Return the choices of a scenario, as text: those that differ set plans apart."""
    plan = scenario.plan
    if isinstance(scenario, Scenario):
        framework = scenario.plan.framework
        names, made_by = CHOSEN_IN_TRAINING, f"{framework.name}, {framework.overlap}"
    else:
        names, made_by = CHOSEN_IN_GENERATION, scenario.plan.engine.name
    said = {name: _in_words(getattr(plan, name)) for name in names}
    return said | {"model": scenario.model.name, "device": scenario.cluster.device.name, "made by": made_by}


def _in_words(value: object) -> str:
    return str(sorted(value)) if isinstance(value, frozenset) else str(value)
