"""What answers the findings and tables of the talk, by id."""

from collections.abc import Sequence

from sightline.reproduction.asking import Findings, Tables
from sightline.reproduction.talk import compute, kernels, parallelism

FINDINGS: Findings = {**compute.FINDINGS, **parallelism.FINDINGS}
TABLES: Tables = {**compute.TABLES, **parallelism.TABLES, **kernels.TABLES}
ASSUMPTIONS: Sequence[str] = (
    "Models, clusters and batches are ours: the talk names strategies and accelerators, not settings.",
    "Plans are predicted in the calibrated view, with today's releases of the frameworks.",
    "An automatic plan is the fastest of those that frameworks launch.",
    "No framework launches a step on unlike devices: such plans are predicted only.",
)
