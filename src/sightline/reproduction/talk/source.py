"""What reproduces the talk."""

from sightline.reproduction.source import Source
from sightline.reproduction.talk import compute, kernels, parallelism

SOURCE = Source(
    findings={**compute.FINDINGS, **parallelism.FINDINGS},
    tables={**compute.TABLES, **parallelism.TABLES, **kernels.TABLES},
    assumptions=(
        "Models, clusters and batches are ours: the talk names strategies and accelerators, not settings.",
        "Plans are predicted in the calibrated view, with today's releases of the frameworks.",
        "An automatic plan is the fastest of those that frameworks launch.",
        "No framework launches a step on unlike devices: such plans are predicted only.",
    ),
)
