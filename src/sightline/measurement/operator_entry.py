"""What runs in a case's own process: operators one after the other, each result sent off as it comes."""

from collections.abc import Mapping
from typing import Any

from sightline.errors import InputError, SightlineError
from sightline.loading import operation_from_mapping
from sightline.measurement.case_process import Emit
from sightline.measurement.operators import measure_operator
from sightline.measurement.outcome import UnsupportedCaseError
from sightline.measurement.timing import BRIEF, FULL, QUICK
from sightline.operator_profile import OperatorProfile

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
        )
    except InputError as error:
        raise UnsupportedCaseError("; ".join(error.problems)) from error
    return result_of(profile)


def several(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure many operators in one process: a result each, or the reason why there is none."""
    results = []
    for asked in arguments["operators"]:
        said = {k: v for k, v in arguments.items() if k != "operators"} | asked
        try:
            result = one(said, lambda _: None)
        except SightlineError as error:
            result = {"reason": str(error)}
        results.append({**result, "scenario": asked["scenario"]})
        emit(
            {"operator": asked["scenario"]["workload"]["operator"], **{k: result.get(k) for k in ("time_s", "reason")}}
        )
    return {"source": "measured", "results": results}


def result_of(profile: OperatorProfile) -> dict[str, Any]:
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
