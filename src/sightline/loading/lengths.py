"""``workload.lengths``: how long samples are, as a number, a list or a distribution."""

from collections.abc import Mapping
from typing import Any

from sightline.loading.input.complaints import Complaints, check, require
from sightline.loading.input.kinds import Keys, anything, choice, each, quantity
from sightline.quantities import COUNT, show
from sightline.scenario.lengths import Lengths

KEY = "workload.lengths"
TOKENS = "tokens, a number above 0"
NEEDED: Mapping[str, Mapping[str, str]] = {
    "lognormal": {"mean": TOKENS, "deviation": "standard deviation in tokens"},
    "normal": {"mean": TOKENS, "deviation": "standard deviation in tokens"},
    "uniform": {"low": TOKENS, "high": TOKENS},
    "empirical": {"values": "a list of lengths in tokens"},
}
"""Keys of each distribution."""


_LENGTHS: Keys = {
    "distribution": choice(*NEEDED),
    "mean": quantity(COUNT),
    "deviation": quantity(COUNT, zero=True),
    **each(quantity(COUNT), "low high"),
    "values": anything,
}


def read_lengths(workload: Mapping[str, Any], complaints: Complaints) -> dict[str, Any]:
    """Return the workload's values with its lengths as `Lengths`, mistakes noted."""
    if "lengths" not in workload:
        if workload.get("packing"):
            complaints.add(f"{KEY} is missing; needed with workload.packing true: how long the packed samples are")
        return dict(workload)
    lengths = _lengths(workload["lengths"], complaints)
    others = {key: value for key, value in workload.items() if key != "lengths"}
    return others if lengths is None else {**others, "lengths": lengths}


def _lengths(stated: object, complaints: Complaints) -> Lengths | None:
    if isinstance(stated, list | tuple):
        stated = {"distribution": "empirical", "values": stated}
    elif isinstance(stated, int | float) and not isinstance(stated, bool):
        stated = {"distribution": "uniform", "low": stated, "high": stated}
    before = len(complaints.problems)
    checked = check(_LENGTHS, stated, KEY, complaints)
    values = dict(checked.values)
    require(checked, {"distribution": ", ".join(NEEDED)}, KEY, complaints)
    if "distribution" in values:
        needed = NEEDED[values["distribution"]]
        require(checked, needed, KEY, complaints)
        complaints.add(
            *(
                f"{KEY}.{key} is for other distributions; {values['distribution']} has {', '.join(needed)}"
                for key in values
                if key != "distribution" and key not in needed
            )
        )
    if "values" in values:
        values["values"] = _values(values["values"], complaints)
    if values.get("low", 0.0) > values.get("high", float("inf")):
        complaints.add(f"{KEY}.low is {values['low']:g}; allowed: up to {KEY}.high {values['high']:g}")
    return Lengths(**values) if len(complaints.problems) == before else None


def _values(stated: object, complaints: Complaints) -> tuple[float, ...]:
    listed = list(stated) if isinstance(stated, list | tuple) else []
    good = [v for v in listed if isinstance(v, int | float) and not isinstance(v, bool) and 1 <= v < float("inf")]
    if not listed or len(good) < len(listed):
        wrong = next((v for v in listed if v not in good), stated)
        complaints.add(f"{KEY}.values has {show(wrong)}; allowed: a list of lengths of 1 token or more")
    return tuple(float(v) for v in good)
