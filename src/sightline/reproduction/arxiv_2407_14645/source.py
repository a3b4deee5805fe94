"""What answers the findings and tables of the source, by id."""

from collections.abc import Callable, Mapping, Sequence

from sightline.reproduction.answer import Reading, ReproducedTable
from sightline.reproduction.asking import Ask

FINDINGS: Mapping[str, Callable[[Ask], Sequence[Reading]]] = {}
TABLES: Mapping[str, Callable[[Ask], ReproducedTable]] = {}
ASSUMPTIONS: Sequence[str] = ()
