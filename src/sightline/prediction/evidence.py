"""What an answer rests on: whether its operators' constants are the device's own, a relative's, or its datasheet's."""

from sightline.cost.collectives.families import collective_evidence
from sightline.cost.device_model import DeviceModel
from sightline.cost.families import Evidence
from sightline.scenario import Scenario

MEASURED_DTYPES = ("fp16", "bf16")
"""Compute dtypes of the tables behind the calibrations, number formats of matmuls aside."""
FEWEST_ROWS, FEWEST_SOURCES = 10, 2
"""Measurements, and sources of them, that a framework's constants rest on where they are called calibrated."""


def not_calibrated(rows: int, sources: int, kind: str, of: str, known: str = "") -> str:
    """Return what a framework's constants lack to be calibrated; empty where they rest on enough.

    ``kind`` is what was measured, a step or a run, ``of`` the framework and the device; ``known`` is what was measured
    instead, in words.
    """
    if rows >= FEWEST_ROWS and sources >= FEWEST_SOURCES:
        return ""
    lacking = f"{kind}s of two sources" if sources < FEWEST_SOURCES else f"{FEWEST_ROWS} {kind}s"
    own = f"calibrated needs {lacking}, or a run of your own"
    if not rows:
        return f"no published {kind} of {of} is known{f' ({known})' if known else ''}; {own}"
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
