"""What reproduces arXiv 2311.03687."""

from sightline.reproduction.arxiv_2311_03687 import (
    burst_tables,
    finetuning,
    measured,
    modules,
    operators,
    pretraining,
    scaling,
    serving,
    tables,
)
from sightline.reproduction.arxiv_2311_03687.grid import SEQUENCE
from sightline.reproduction.source import Source

SOURCE = Source(
    findings={
        **pretraining.FINDINGS,
        **modules.FINDINGS,
        **scaling.FINDINGS,
        **finetuning.FINDINGS,
        **serving.FINDINGS,
        **operators.FINDINGS,
    },
    tables={
        **tables.TABLES,
        **scaling.TABLES,
        **finetuning.TABLES,
        **burst_tables.TABLES,
        **operators.TABLES,
    },
    assumptions=(
        f"Samples of {SEQUENCE} tokens, bf16 weights, eager attention unless F; batch per GPU 1 unless said.",
        "Releases of frameworks and engines are those of November 2023.",
        "The study's numeric tables were not available: its tables are predicted for its servers, without its figures.",
        *burst_tables.ASSUMPTIONS,
    ),
    measured=measured.tables_at_hand,
)
