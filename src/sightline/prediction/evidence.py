"""What an answer rests on: whether its operators' constants are the device's own, a relative's, or its datasheet's."""

from typing import TYPE_CHECKING

import numpy as np

from sightline.cost.attention.constants import PHASE_PARTS, AttentionPhase
from sightline.cost.collectives.families import collective_evidence
from sightline.cost.device_model import DeviceModel
from sightline.cost.families import Evidence, evidence_of, family_of
from sightline.cost.matmul.constants import matmul_evidence
from sightline.program.blocks.layer import mixer_of
from sightline.scenario import Device, Scenario

if TYPE_CHECKING:
    from sightline.cost.matmul.grouped import GroupedLayout
    from sightline.prediction.generation.worker import Worker

MEASURED_DTYPES = ("fp16", "bf16")
"""Compute dtypes of the tables behind the calibrations, number formats of matmuls aside."""
FEWEST_ROWS, FEWEST_SOURCES = 10, 2
"""Measurements, and sources of them, that a framework's constants rest on where they are called calibrated."""
_WORST: tuple[Evidence, ...] = ("datasheet", "extrapolated", "calibrated")
_LAYOUTS: "tuple[GroupedLayout, ...]" = ("masked", "contiguous")


def not_calibrated(rows: int, sources: int, kind: str, of: str) -> str:
    """Return what a framework's constants lack to be calibrated; empty where they rest on enough.

    ``kind`` is what was measured, a step or a run, ``of`` the framework and the device.
    """
    if rows >= FEWEST_ROWS and sources >= FEWEST_SOURCES:
        return ""
    lacking = f"{kind}s of two sources" if sources < FEWEST_SOURCES else f"{FEWEST_ROWS} {kind}s"
    own = f"calibrated needs {lacking}, or a run of your own"
    if not rows:
        return f"no published {kind} of {of} is known; {own}"
    return f"{rows} {kind}{'s' * (rows > 1)} of {of} from {sources} source{'s' * (sources > 1)}; {own}"


def within(evidence: Evidence, *, measured: bool) -> Evidence:
    """The evidence of constants, less where they are used outside what was measured."""
    return evidence if measured or evidence == "datasheet" else "extrapolated"


def evidence_of_step(scenario: Scenario, model: DeviceModel) -> dict[str, str]:
    """Return what the operators of a training step rest on."""
    cluster = scenario.cluster
    inside = cluster.nodes == 1  # networks between nodes were measured on another cluster
    return {
        "matmul": model.evidence("matmul"),
        "attention": model.evidence("attention"),
        "collectives": within(collective_evidence(cluster, "all_reduce"), measured=inside),
    }


def evidence_of_passes(worker: "Worker") -> dict[str, str]:
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


def _has_measured_elements(worker: "Worker") -> bool:
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
