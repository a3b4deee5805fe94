"""What reproduces arXiv 2311.03687."""

from sightline.reproduction.arxiv_2311_03687 import (
    finetuning,
    measured,
    modules,
    operators,
    pretraining,
    scaling,
    serving,
    tables,
)
from sightline.reproduction.arxiv_2311_03687 import serving as burst_tables
from sightline.reproduction.arxiv_2311_03687.settings import SEQUENCE
from sightline.reproduction.asking import Assumption, Source

_TRAINING = {
    **pretraining.FINDINGS,
    **modules.FINDINGS,
    **scaling.FINDINGS,
    **finetuning.FINDINGS,
}
_TABLES_OF_TRAINING = {**tables.TABLES, **scaling.TABLES, **finetuning.TABLES}
_TABLES = {**_TABLES_OF_TRAINING, **burst_tables.TABLES, **operators.TABLES}

SOURCE = Source(
    findings={**_TRAINING, **serving.FINDINGS, **operators.FINDINGS},
    tables=_TABLES,
    assumptions=(
        Assumption(
            f"Samples of {SEQUENCE} tokens, bf16 weights, eager attention unless F; batch per GPU 1 unless said.",
            {*_TRAINING, *_TABLES_OF_TRAINING},
        ),
        Assumption(
            "Z2 and Z3 are ZeRO stages, O is offload, Q 4-bit weights, R recomputation, F FlashAttention, N none; "
            "L is LoRA and QL QLoRA.",
            {*_TRAINING, *_TABLES_OF_TRAINING},
        ),
        Assumption(
            "Releases of frameworks and engines are those of November 2023.",
            {*_TRAINING, *_TABLES_OF_TRAINING, *serving.FINDINGS, *burst_tables.TABLES},
        ),
        Assumption(
            "The study's numeric tables were not available: its tables are predicted for its servers, without its "
            "figures.",
            _TABLES,
        ),
        *(Assumption(one, serving.FINDINGS) for one in burst_tables.ASSUMPTIONS),
    ),
    measured=measured.tables_at_hand,
)
