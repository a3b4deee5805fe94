"""What runs in a training case's own process: the scenario's repeats one after the other, each by new processes."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.measurement import training_rank
from sightline.measurement.case_process import Emit
from sightline.measurement.outcome import OutOfMemoryError, UnsupportedCaseError
from sightline.measurement.rank_group import Ranks, run_ranks
from sightline.measurement.stale_locks import refuse_stale_locks
from sightline.measurement.training_fit import resolved, why_too_large
from sightline.measurement.training_frameworks import preload, way_of
from sightline.measurement.training_machine import training_machine
from sightline.measurement.training_profile import result_of

ENTRY = f"{__name__}:measure_case"
PASSED_ON = ("scenario", "warm_up", "steps", "weights")


def measure_case(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure a scenario ``repeats`` times and return its result keys and rows.

    Arguments: ``scenario``, ``warm_up``, ``steps``, ``repeats``, ``levels``, ``weights``, ``force``, and ``nodes``: how
    many (``count``), which of them this is (``rank``), and where they meet (``host``, ``port``, ``prefix``).
    """
    try:
        scenario, predicted = resolved(scenario_from_mapping(arguments["scenario"]))
        nodes: Mapping[str, Any] = arguments.get("nodes") or {}
        machine = training_machine(scenario.cluster, int(nodes.get("count", 1)), int(nodes.get("local_count", 1)))
    except InputError as error:
        raise UnsupportedCaseError("; ".join(error.problems)) from error
    way = way_of(scenario)
    too_large = why_too_large(predicted)
    if too_large and not arguments["force"]:
        raise OutOfMemoryError(too_large)
    if way == "deepspeed":
        refuse_stale_locks()
    ranks = Ranks(
        here=machine.ranks,
        first=machine.ranks * int(nodes.get("rank", 0)),
        world=scenario.cluster.devices,
        threads=machine.threads,
        variables={**machine.variables, **_place(nodes)},
    )
    preload(way)
    samples: list[dict[str, Any]] = []
    repeats = []
    for repeat in range(arguments["repeats"]):

        def keep(sample: Mapping[str, Any], repeat: int = repeat) -> None:
            samples.append({"repeat": repeat, **sample})
            emit(_flat(samples[-1]))

        with tempfile.TemporaryDirectory() as folder:
            asked = {
                **{key: arguments[key] for key in PASSED_ON},
                # Modules and operators take steps of their own, once.
                "levels": arguments["levels"] if repeat == 0 else [],
                "meeting": _meeting(nodes, folder, repeat),
            }
            repeats.append(run_ranks(training_rank.ENTRY, asked, ranks, keep)[0])
    seen = {
        "way": way,
        "threads": machine.threads,
        "warm_up": arguments["warm_up"],
        "weights": arguments["weights"] or "random",
        "repeats": repeats,
    }
    return result_of(scenario, predicted, seen, samples) if samples else {}


def _place(nodes: Mapping[str, Any]) -> dict[str, str]:
    """Under torchrun, which of the machine's devices this process is for."""
    return {} if nodes.get("local_rank") is None else {"LOCAL_RANK": str(nodes["local_rank"])}


def _meeting(nodes: Mapping[str, Any], folder: str, repeat: int) -> dict[str, Any]:
    """Where ranks find each other: a file on one node, a server on several, anew for every repeat."""
    if not nodes:
        return {"file": str(Path(folder) / "ranks")}
    return {"host": nodes["host"], "port": nodes["port"], "prefix": f"{nodes['prefix']}/{repeat}"}


def _flat(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample as a line of a table: phases become columns."""
    phases = {f"{phase}_s": seconds for phase, seconds in sample["phases"].items()}
    return {key: value for key, value in sample.items() if key != "phases"} | phases
