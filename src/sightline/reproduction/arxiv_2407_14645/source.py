"""What reproduces arXiv 2407.14645."""

from sightline.reproduction.arxiv_2407_14645 import inference, technology, training
from sightline.reproduction.source import Source

SOURCE = Source(
    findings={**training.FINDINGS, **technology.FINDINGS, **inference.FINDINGS},
    tables={**training.TABLES, **technology.TABLES, **inference.TABLES},
    assumptions=(
        "Numeric tables of the source were not available: its studies are those of `sightline explore`.",
        "Of what it leaves open, such as one plan or a searched one, every way is shown; the row says which is judged.",
        "Where A100 to B200 is meant, workload and baseline are ours: the source states neither.",
    ),
)
