"""What an answer to generation rests on, by kind of operator."""

from typing import TYPE_CHECKING

import numpy as np

from sightline.cost.attention.constants import PHASE_PARTS, AttentionPhase
from sightline.cost.collectives.families import collective_evidence
from sightline.cost.families import Evidence, evidence_of, family_of
from sightline.cost.matmul.constants import matmul_evidence
from sightline.prediction.evidence import MEASURED_DTYPES, within
from sightline.prediction.generation.worker import Worker
from sightline.program.blocks.layer import mixer_of
from sightline.scenario import Device

if TYPE_CHECKING:
    from sightline.cost.matmul.grouped import GroupedLayout

_WORST: tuple[Evidence, ...] = ("datasheet", "extrapolated", "calibrated")
_LAYOUTS: "tuple[GroupedLayout, ...]" = ("masked", "contiguous")


def evidence_of_passes(worker: Worker) -> dict[str, str]:
    """Return the weakest evidence of each kind of operator that the passes have.

    Whole kinds only: sizes beyond those of the tables are not looked at.
    """
    scenario = worker.scenario
    device, model, plan = scenario.cluster.device, scenario.model, scenario.plan
    if not worker.ranks.device_model.asynchronous:
        kinds = ("matmul", "prefill attention", "decode attention")
        return {kind: worker.ranks.device_model.evidence(kind) for kind in kinds}
    kernels = {worker.formats.parts[part] for part in ("attention", "dense", "head")}
    decode: AttentionPhase = "mla-decode" if model.latent is not None else "decode"
    usual = _has_measured_elements(worker)
    found: dict[str, str] = {
        "matmul": min((matmul_evidence(device, kernel) for kernel in kernels), key=_WORST.index),
        "prefill attention": within(evidence_of(device, PHASE_PARTS["prefill"]), measured=usual),
        "decode attention": within(evidence_of(device, PHASE_PARTS[decode]), measured=usual),
    }
    for name, part in filter(None, (mixer_of(model, kind).calibration for kind in model.kinds)):
        found[name] = evidence_of(device, part)
    if model.experts is not None:
        found["experts"] = _experts(device, worker.formats.parts["experts"])
    ranks = plan.tensor_parallel * plan.data_parallel
    if np.any(np.greater(ranks, 1)):
        inside = bool(np.all(np.less_equal(ranks, scenario.cluster.per_node)))
        found["collectives"] = within(collective_evidence(scenario.cluster, "all_reduce"), measured=inside)
    return found


def _has_measured_elements(worker: Worker) -> bool:
    """Whether attention is of 16-bit elements and a cache of them, or of fp8 on a device that computes in it."""
    plan, model, device = worker.scenario.plan, worker.scenario.model, worker.scenario.cluster.device
    cache = next((word for word in plan.quantization or () if word.startswith("kv-")), f"kv-{model.kv_cache}")
    stored = cache != "kv-int8" and (cache != "kv-fp8" or "fp8" in device.peak_flops)
    return stored and plan.dtype in (*MEASURED_DTYPES, "fp8")


def _experts(device: Device, kernel: str) -> Evidence:
    """The weaker of both layouts of the experts' matmuls."""
    from sightline.cost.matmul.grouped import load_grouped

    family = family_of(device, "grouped")
    said = {load_grouped(family, "16-bit" if kernel == "32-bit" else kernel, layout)[1] for layout in _LAYOUTS}
    return within(evidence_of(device, "grouped"), measured=said == {"calibrated"})
