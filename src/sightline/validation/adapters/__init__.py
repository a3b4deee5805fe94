"""What the tables of one source alone need: readers of its columns, and of lines that hold several measurements."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sightline.validation.adapters import silicon_sample, training
from sightline.validation.cells import Cells
from sightline.validation.rows import Row

Reader = Callable[[Cells, Mapping[str, Any], str], Row]

READERS: Mapping[str, Reader] = {
    "silicon-sample": silicon_sample.row_of_cells,
    "galvatron": training.galvatron,
}
"""Tables whose columns mean different things in different rows, by the ``reader`` of the ``csv`` part."""

LINES: Mapping[str, Callable[[Cells], Iterator[Cells]]] = {
    "megatron-bridge": training.megatron_bridge,
    "mlperf-training": training.mlperf_training,
}
"""Tables a line of which holds several measurements, or columns in others' places, by the ``lines`` of the ``csv``
part."""
