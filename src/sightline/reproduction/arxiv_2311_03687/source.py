"""What answers the findings and tables of arXiv 2311.03687, by id."""

from collections.abc import Callable, Mapping, Sequence

from sightline.reproduction.answer import Reading, ReproducedTable
from sightline.reproduction.arxiv_2311_03687 import pretraining
from sightline.reproduction.asking import Ask

_PARTS = (pretraining,)

FINDINGS: Mapping[str, Callable[[Ask], Sequence[Reading]]] = {
    id_: answer for part in _PARTS for id_, answer in part.FINDINGS.items()
}
TABLES: Mapping[str, Callable[[Ask], ReproducedTable]] = {
    id_: answer for part in _PARTS for id_, answer in part.TABLES.items()
}
ASSUMPTIONS: Sequence[str] = (
    "Samples of 350 tokens, bf16 weights, eager attention unless F; batch per GPU 1 unless said.",
    "Releases of frameworks and engines are those of November 2023.",
    "The study's numeric tables were not available: its tables are predicted for its servers, without its figures.",
)
