"""How far two scenarios are apart: near ones have in common what effects leave of their errors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sightline.catalog import entry
from sightline.content import description, record
from sightline.prediction.anchoring.timed import Answered
from sightline.quantities import Number
from sightline.scenario import Model, Scenario
from sightline.scenario.generation import DEGREES

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


@description
class Spreads:
    """How what effects leave of errors differs between plans (the catalog's ``training/constants``)."""

    shared: float
    """Share of the case's variance that a step has in common with its next neighbour."""
    constants: float
    """How far a constant strays between plans of a site that have nothing in common, over how far between sites."""
    doublings: float
    choices: float
    """In how many factors of two, and other choices, likeness falls to 1/e."""


def plan_spreads() -> Spreads:
    """Return what the catalog states."""
    return Spreads(**entry("training", "constants")["anchors"])


@record
class Description:
    """What sets scenarios apart, and which result of them is meant."""

    numbers: Mapping[str, Any]
    """Those that count by their ratio; arrays where a plan is an open mesh."""
    choices: Mapping[str, str]


def described(scenario: Answered, quantity: str) -> Description:
    """Return what sets a result of a scenario apart from others."""
    return Description(numbers=counted(scenario), choices={**chosen_of(scenario), "quantity": quantity})


def likeness(anchor: Description, plan: Description, spreads: Spreads) -> Number:
    """Return the correlation of what effects leave of two results' errors: exp(-distance).

    A factor of two in a number counts one ``doublings``-th, another choice one ``choices``-th.
    """
    mine, other = anchor.numbers, plan.numbers
    doublings: Number = sum(np.abs(np.log2(1.0 * other[key] / mine[key])) for key in mine)
    changed = sum(anchor.choices[key] != plan.choices[key] for key in plan.choices)
    similar: Number = np.exp(-doublings / spreads.doublings - changed / spreads.choices)
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
