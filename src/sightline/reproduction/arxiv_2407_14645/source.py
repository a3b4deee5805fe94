"""What reproduces arXiv 2407.14645."""

from sightline.reproduction.arxiv_2407_14645 import inference, technology, training
from sightline.reproduction.source import Assumption, Source

_FINDINGS = {**training.FINDINGS, **technology.FINDINGS, **inference.FINDINGS}

SOURCE = Source(
    findings=_FINDINGS,
    tables={**training.TABLES, **technology.TABLES, **inference.TABLES},
    assumptions=(
        Assumption("Numeric tables of the source were not available: its studies are those of `sightline explore`."),
        Assumption(
            "Of what it leaves open, such as one plan or a searched one, every way is shown; the row says which is "
            "judged.",
            _FINDINGS,
        ),
        Assumption(
            "Where A100 to B200 is meant, workload and baseline are ours: the source states neither.",
            ("B4", "a100-to-b200"),
        ),
    ),
)
