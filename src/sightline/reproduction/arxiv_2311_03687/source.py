"""What reproduces arXiv 2311.03687."""

from sightline.reproduction.arxiv_2311_03687 import (
    bursts,
    measured,
    single_operators,
    training_findings,
    training_tables,
)
from sightline.reproduction.arxiv_2311_03687.settings import SEQUENCE
from sightline.reproduction.asking import Assumption, Source

_TRAINING = training_findings.FINDINGS
_TABLES_OF_TRAINING = {**training_tables.TABLES, **training_findings.TABLES}
_TABLES = {**_TABLES_OF_TRAINING, **bursts.TABLES, **single_operators.TABLES}

SOURCE = Source(
    findings={**_TRAINING, **bursts.FINDINGS, **single_operators.FINDINGS},
    tables=_TABLES,
    assumptions=(
        Assumption(
            f"Samples of {SEQUENCE} tokens, bf16 weights, eager attention unless F; batch 1 per GPU unless stated.",
            {*_TRAINING, *_TABLES_OF_TRAINING},
        ),
        Assumption(
            "Z2 and Z3 are ZeRO stages, O is offload, Q 4-bit weights, R recomputation, F FlashAttention, N none; "
            "L is LoRA and QL QLoRA.",
            {*_TRAINING, *_TABLES_OF_TRAINING},
        ),
        Assumption(
            "Frameworks and engines are the releases of November 2023.",
            {*_TRAINING, *_TABLES_OF_TRAINING, *bursts.FINDINGS, *bursts.TABLES},
        ),
        Assumption(
            "The numeric tables of the study were not available; its tables are predicted for its servers "
            "without comparison.",
            _TABLES,
        ),
        *(Assumption(one, bursts.FINDINGS) for one in bursts.ASSUMPTIONS),
    ),
    measured=measured.tables_at_hand,
)
