"""What reproduces the talk."""

from sightline.reproduction.source import Assumption, Source
from sightline.reproduction.talk import compute, kernels, parallelism

_PREDICTED = {*parallelism.FINDINGS, *parallelism.TABLES, *kernels.TABLES}

SOURCE = Source(
    findings={**compute.FINDINGS, **parallelism.FINDINGS},
    tables={**compute.TABLES, **parallelism.TABLES, **kernels.TABLES},
    without_pictures=("flops", "plans"),
    assumptions=(
        Assumption(
            "Models, clusters and batches are ours: the talk names strategies and accelerators, not settings.",
            _PREDICTED,
        ),
        Assumption(
            "Plans are predicted in the calibrated view, with today's releases of the frameworks.",
            _PREDICTED,
        ),
        Assumption(
            "An automatic plan is the fastest of those that frameworks launch.",
            ("C4", "strategies", "plans"),
        ),
        Assumption("No framework launches a step on unlike devices: such plans are predicted only.", ("C5", "mixed")),
    ),
)
