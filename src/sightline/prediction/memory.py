"""The memory ledger: what each pipeline stage's device holds at its fullest moment.

States follow ZeRO (arXiv 1910.02054), activations the saved tensors of the program's operators times the micro-batches
in flight (arXiv 2205.05198). Left out: fragmentation beyond the framework's fixed share.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.profile import MEMORY_PARTS, StageMemory
from sightline.program import Program
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number
from sightline.scenario import Scenario

GATHERED_LAYERS = 2.0
"""Layers whose full parameters are live under ZeRO-3: the one at work and the one prefetched."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageContents:
    """What one kind of stage holds: layers, and whether the model's ends are there (1.0 or 0.0)."""

    name: str
    layers: Number
    embedding: Number
    head: Number
    tied_copy: Number
    """1.0 where the head is tied to an embedding that lives on another stage."""
    in_flight: Number
    """Micro-batches whose activations are held at the peak."""


def stage_memory(scenario: Scenario, program: Program, stage: StageContents) -> StageMemory:
    """Return the ledger of one stage, in bytes per device."""
    plan, framework = scenario.plan, scenario.plan.framework
    zero, dp = np.asarray(plan.zero_stage), plan.data_parallel
    states = framework.states_in(plan.dtype)
    parameters = stage_parameters(program, stage)
    shared = 1.0 / dp
    layers_kept = stage.in_flight * stage.layers * program.layer.saved_bytes
    ends_kept = stage.in_flight * (
        stage.embedding * program.embedding.saved_bytes + stage.head * program.head.saved_bytes
    )
    logits = stage.head * program.head.logits * framework.loss_bytes_per_logit
    recomputed = (stage.layers > 0) * program.layer.working_bytes
    transient = program.layer.transient_bytes
    replicated = np.asarray(dp) > 1
    live = np.minimum(parameters, GATHERED_LAYERS * program.layer.parameters + _ends_parameters(program, stage))
    # FSDP's SHARD_GRAD_OP keeps its shards and the whole gathered parameters from forward to backward.
    whole = (zero == 2) & framework.regathers_every_micro_batch
    gathered = replicated * ELEMENT_BYTES[plan.dtype] * ((zero == 3) * live + whole * parameters)
    buffers = gathered + replicated * framework.communication_buffer_bytes + transient
    return StageMemory(
        stage=stage.name,
        parts={
            "weights": parameters * states.weights * np.where((zero >= 3) | whole, shared, 1.0),
            "gradients": parameters * states.gradients * np.where(zero >= 2, shared, 1.0),
            "optimizer": parameters * states.optimizer * np.where(zero >= 1, shared, 1.0),
            "activations": layers_kept + ends_kept + np.maximum(logits, recomputed),
            "kv_cache": 0.0,
            "buffers": buffers,
            "framework": framework.context_bytes,
        },
        items={
            "layer activations": layers_kept,
            "embedding and head activations": ends_kept,
            "logits and loss": logits,
            "recomputation working set": recomputed,
            "gathered parameters": gathered,
            "transient tensors": transient,
        },
    )


def stage_parameters(program: Program, stage: StageContents) -> Number:
    """Parameters on one device of a stage, before ZeRO."""
    return (
        stage.layers * program.layer.parameters
        + _ends_parameters(program, stage)
        + stage.tied_copy * program.embedding.parameters
    )


def _ends_parameters(program: Program, stage: StageContents) -> Number:
    return stage.embedding * program.embedding.parameters + stage.head * program.head.parameters


def fullest(stages: Sequence[StageMemory]) -> dict[str, Number]:
    """Return the parts of the stage with the largest total, plan by plan, with ``total``."""
    totals = [stage.total for stage in stages]
    parts = {name: stages[0].parts[name] for name in MEMORY_PARTS}
    best = totals[0]
    for stage, total in zip(stages[1:], totals[1:], strict=True):
        fuller = total > best
        if not np.any(fuller):
            continue
        parts = {name: np.where(fuller, stage.parts[name], parts[name]) for name in MEMORY_PARTS}
        best = np.where(fuller, total, best)
    return {**parts, "total": best}
