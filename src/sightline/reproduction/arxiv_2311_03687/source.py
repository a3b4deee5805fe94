"""What answers the findings and tables of arXiv 2311.03687, by id."""

from collections.abc import Sequence

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
from sightline.reproduction.asking import Findings, Tables

FINDINGS: Findings = {
    **pretraining.FINDINGS,
    **modules.FINDINGS,
    **scaling.FINDINGS,
    **finetuning.FINDINGS,
    **serving.FINDINGS,
    **operators.FINDINGS,
}
TABLES: Tables = {
    **tables.TABLES,
    **scaling.TABLES,
    **finetuning.TABLES,
    **burst_tables.TABLES,
    **operators.TABLES,
}
ASSUMPTIONS: Sequence[str] = (
    f"Samples of {SEQUENCE} tokens, bf16 weights, eager attention unless F; batch per GPU 1 unless said.",
    "Releases of frameworks and engines are those of November 2023.",
    "The study's numeric tables were not available: its tables are predicted for its servers, without its figures.",
    *burst_tables.ASSUMPTIONS,
)

MEASURED = measured.tables_at_hand
"""What measures the study's grid on the machine at hand."""
