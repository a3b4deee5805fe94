"""What runs in a case's own process: independent runs of generation one after the other, each in a process again."""

from collections.abc import Mapping
from typing import Any

from sightline.loading import generation_from_mapping
from sightline.measurement import generation_process
from sightline.measurement.case_process import Emit
from sightline.measurement.generation_results import result_of
from sightline.measurement.rank_group import Ranks, run_ranks

ENTRY = f"{__name__}:measure_case"
RUNS = 3
"""Independent runs: another process finds other memory, another clock, another order of everything."""


def measure_case(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure a scenario; ``arguments`` are those of a run, and ``threads`` of each."""
    own = {key: value for key, value in arguments.items() if key != "threads"}
    runs = []
    for number in range(1 if arguments["quick"] else RUNS):
        ranks = Ranks(here=1, threads=arguments["threads"])
        runs += run_ranks(generation_process.ENTRY, own, ranks, _numbered(number, emit))
    return result_of(generation_from_mapping(arguments["scenario"]), runs)


def _numbered(run: int, emit: Emit) -> Emit:
    """What sends a run's samples off with its number."""
    return lambda sample: emit({"run": run, **sample})
