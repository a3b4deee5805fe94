"""What answers the findings and tables of the talk, by id."""

from collections.abc import Callable, Mapping, Sequence

from sightline.reproduction.answer import Reading, ReproducedTable
from sightline.reproduction.asking import Ask
from sightline.reproduction.talk import compute, kernels, parallelism

FINDINGS: Mapping[str, Callable[[Ask], Sequence[Reading]]] = {**compute.FINDINGS, **parallelism.FINDINGS}
TABLES: Mapping[str, Callable[[Ask], ReproducedTable]] = {**compute.TABLES, **parallelism.TABLES, **kernels.TABLES}
ASSUMPTIONS: Sequence[str] = (
    "Models, clusters and batches are ours: the talk names strategies and accelerators, not settings.",
    "Plans are predicted in the calibrated view, with today's releases of the frameworks.",
    "An automatic plan is the fastest of those that frameworks launch.",
    "No framework launches a step on unlike devices: such plans are predicted only.",
)
