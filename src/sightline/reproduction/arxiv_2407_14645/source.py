"""What answers the findings and tables of arXiv 2407.14645, by id."""

from collections.abc import Sequence

from sightline.reproduction.arxiv_2407_14645 import inference, technology, training
from sightline.reproduction.asking import Findings, Tables

_PARTS = (training, technology, inference)

FINDINGS: Findings = {id_: answer for part in _PARTS for id_, answer in part.FINDINGS.items()}
TABLES: Tables = {id_: answer for part in _PARTS for id_, answer in part.TABLES.items()}
ASSUMPTIONS: Sequence[str] = (
    "Numeric tables of the source were not available: its studies are those of `sightline explore`.",
    "Of what it leaves open, such as one plan or a searched one, every way is shown, and the row says which is judged.",
    "Where A100 to B200 is meant, workload and baseline are ours: the source states neither.",
)
