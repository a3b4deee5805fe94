"""Each reader of the package: where its right inputs come from, and how wrong ones are asked about."""

from collections.abc import Callable, Mapping
from typing import Final

from fuzzing.campaign import Maker
from fuzzing.readers.launches import launches
from fuzzing.readers.pages import pages
from fuzzing.readers.results import anchors, results, runs
from fuzzing.readers.scenarios import configs, plans, scenarios, studies
from fuzzing.readers.tables import measurements, published, requests
from fuzzing.readers.traces import traces
from fuzzing.readers.words import options, quantities

READERS: Final[Mapping[str, Callable[[], Maker]]] = {
    reader.__name__: reader
    for reader in (
        *(scenarios, configs, plans, studies, requests, measurements, published, traces),
        *(launches, results, anchors, runs, quantities, options, pages),
    )
}
"""By name, what reads the right inputs and returns the maker of wrong ones."""
