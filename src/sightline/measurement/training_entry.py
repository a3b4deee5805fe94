"""What runs in a training case's own process: the scenario's repeats one after the other, each by new processes."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.measurement import training_rank
from sightline.measurement.case_process import Emit
from sightline.measurement.outcome import UnsupportedCaseError
from sightline.measurement.rank_group import Ranks, run_ranks
from sightline.measurement.stale_locks import refuse_stale_locks
from sightline.measurement.training_frameworks import preload, way_of
from sightline.measurement.training_machine import training_machine

ENTRY = f"{__name__}:measure_training"
MEETING = "meeting"


def measure_training(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure a scenario: ``repeats`` times, a group of ranks warms up and takes its samples.

    Arguments: ``scenario``, ``warm_up``, ``steps``, ``repeats``, ``levels``, ``weights``, and ``nodes``: how many,
    which of them this is, and where they meet. Returns what every rank of every repeat saw.
    """
    try:
        scenario = scenario_from_mapping(arguments["scenario"])
        nodes: Mapping[str, Any] = arguments.get("nodes") or {}
        machine = training_machine(scenario.cluster, int(nodes.get("count", 1)))
        way = way_of(scenario.plan)
    except InputError as error:
        raise UnsupportedCaseError("; ".join(error.problems)) from error
    if way == "deepspeed":
        refuse_stale_locks()
    ranks = Ranks(
        here=machine.ranks,
        first=machine.ranks * int(nodes.get("rank", 0)),
        world=scenario.cluster.devices,
        threads=machine.threads,
        variables=machine.variables,
    )
    preload(way)
    asked = {key: arguments[key] for key in ("scenario", "warm_up", "steps", "weights", "levels")}
    repeats: list[Sequence[Mapping[str, Any]]] = []
    for repeat in range(arguments["repeats"]):
        with tempfile.TemporaryDirectory() as folder:
            meeting = (
                {"file": str(Path(folder) / "ranks")}
                if len(nodes) == 0
                else {**nodes[MEETING], "prefix": f"{nodes[MEETING]['prefix']}/{repeat}"}
            )
            # Module and operator times take steps of their own, once.
            levels = arguments["levels"] if repeat == 0 else []
            repeats.append(
                run_ranks(
                    training_rank.ENTRY,
                    {**asked, "levels": levels, "meeting": meeting},
                    ranks,
                    lambda sample, repeat=repeat: emit({"repeat": repeat, **sample}),  # type: ignore[misc]
                )
            )
    return {"way": way, "kind": machine.kind, "threads": machine.threads, "repeats": [r[0] for r in repeats]}
