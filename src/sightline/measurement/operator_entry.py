"""What runs in a case's own process: operators one after the other, each result sent off as it comes."""

from collections.abc import Mapping
from typing import Any

from sightline.errors import InputError, SightlineError
from sightline.loading import operation_from_mapping
from sightline.measurement.case_process import Emit
from sightline.measurement.operators import measure_operator
from sightline.measurement.outcome import UnsupportedCaseError
from sightline.measurement.timing import BRIEF, FULL, QUICK
from sightline.profile import Profile

ONE, SEVERAL = (f"{__name__}:{name}" for name in ("one", "several"))
"""Entries of cases; their arguments are ``scenario``, or ``scenarios`` and ``operators``, and ``quick``."""


def one(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure one scenario's operator: its samples are the case's samples, its result keys the case's result."""
    try:
        scenario = operation_from_mapping(arguments["scenario"])
        profile = measure_operator(
            scenario,
            arguments.get("implementation"),
            BRIEF if arguments.get("brief") else QUICK if arguments["quick"] else FULL,
            lambda seconds: emit({"time_s": seconds}),
            cached=arguments.get("cached", False),
            flushed=arguments.get("flushed", False),
        )
    except InputError as error:
        raise UnsupportedCaseError("; ".join(error.problems)) from error
    return result_of(profile)


def several(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure many operators in one process: a result each, or the reason why there is none.

    In several ``rounds`` through all of them, if asked: a machine that is fast or slow for a while is so for one round's
    measurement of an operator, and the round whose time is the median counts.
    """
    asked_for, rounds = arguments["operators"], int(arguments.get("rounds", 1))
    found: list[list[dict[str, Any]]] = [[] for _ in asked_for]
    for _ in range(rounds):
        for asked, mine in zip(asked_for, found, strict=True):
            said = {k: v for k, v in arguments.items() if k not in ("operators", "rounds")} | asked
            try:
                result = one(said, lambda _: None)
            except SightlineError as error:
                result = {"reason": str(error)}
            mine.append(result)
            told = {k: result.get(k) for k in ("time_s", "reason")}
            emit({"operator": asked["scenario"]["workload"]["operator"], **told})
    results = [
        {**_median_round(mine), "scenario": asked["scenario"]} for asked, mine in zip(asked_for, found, strict=True)
    ]
    return {"source": "measured", "results": results}


def _median_round(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The lower median by time, with the times of all rounds; the first that failed where none did not."""
    timed = sorted((r for r in results if "time_s" in r), key=lambda r: float(r["time_s"]))
    if not timed:
        return results[0]
    chosen = timed[(len(timed) - 1) // 2]
    if len(timed) == 1:
        return chosen
    record = {**chosen["measurement"], "rounds_s": [float(r["time_s"]) for r in results if "time_s" in r]}
    return {**chosen, "measurement": record}


def result_of(profile: Profile) -> dict[str, Any]:
    """Return a measured profile under the result keys, its scenario left out."""
    return {
        "source": profile.source,
        "time_s": profile.time_s,
        "flops": profile.flops,
        "bytes": profile.bytes,
        "interval": {key: list(ends) for key, ends in profile.interval.items()},
        "measurement": dict(profile.measurement),
        "warnings": list(profile.warnings),
    }
