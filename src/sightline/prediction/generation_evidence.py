"""What a generation's constants rest on, by kind of operator."""

import numpy as np

from sightline.cost.attention_families import AttentionPhase, attention_evidence
from sightline.cost.collective_families import collective_evidence
from sightline.cost.families import evidence_of
from sightline.cost.matmul_constants import matmul_evidence
from sightline.prediction.generation_pricing import PricedGeneration

_WORST = ("datasheet", "extrapolated", "calibrated")


def evidence_of_passes(priced: PricedGeneration) -> dict[str, str]:
    """Return the weakest evidence of each kind of operator that the passes have."""
    scenario = priced.scenario
    device, model = scenario.cluster.device, scenario.model
    kernels = {priced.formats.parts[part] for part in ("attention", "dense", "head")}
    decode: AttentionPhase = "mla-decode" if model.latent is not None else "decode"
    found: dict[str, str] = {
        "matmul": min((matmul_evidence(device, kernel) for kernel in kernels), key=_WORST.index),
        "prefill attention": attention_evidence(device, "prefill"),
        "decode attention": attention_evidence(device, decode),
    }
    if model.experts is not None:
        found["experts"] = evidence_of(device, "grouped")
    if np.any(np.greater(scenario.plan.tensor_parallel * scenario.plan.data_parallel, 1)):
        found["collectives"] = collective_evidence(scenario.cluster, "all_reduce")
    return found
