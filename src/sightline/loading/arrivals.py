"""``workload.arrival`` of serving: when requests arrive."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from sightline.errors import InputError
from sightline.kinds import anything, choice, quantity, whole
from sightline.loading.input.checks import Complaints, Keys, check
from sightline.quantities import RATE, SECONDS, show
from sightline.scenario import Arrival

PROCESSES = ("poisson", "gamma", "constant", "closed", "all_at_once")
"""Arrival processes besides the times of a trace."""
ARRIVAL: Keys = {
    "process": choice("trace", *PROCESSES),
    "rate": quantity(RATE),
    "cv": quantity(RATE),
    "concurrency": whole(),
    "think_time": quantity(SECONDS, zero=True),
    "ramp_up": quantity(SECONDS, zero=True),
    "ramp": anything,
}
"""``workload.arrival``."""


class _Use(NamedTuple):
    """What a process needs, and what else it takes."""

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


_USES: Mapping[str, _Use] = {
    "trace": _Use(takes=("rate",)),
    "poisson": _Use(needs=("rate",)),
    "gamma": _Use(needs=("rate", "cv")),
    "constant": _Use(needs=("rate",)),
    "closed": _Use(needs=("concurrency",), takes=("think_time", "ramp_up")),
    "all_at_once": _Use(),
}
_WHAT = {
    "rate": "requests per second, above 0, or ramp",
    "cv": "standard deviation of the gaps over their mean; 1 is a Poisson process",
    "concurrency": "clients that each wait for their answer",
}

_SUCH_AS = {"rate": 4, "cv": 2, "concurrency": 16}
"""What an example has."""


def read_arrival(stated: object, complaints: Complaints, *, has_trace: bool, turns: bool) -> Arrival:
    """Return when requests arrive, mistakes noted; without a process as a trace says, else all at once.

    ``turns``: whether there are conversations, which wait between their turns in any process.
    """
    checked = check(ARRIVAL, stated, "workload.arrival", complaints)
    values = dict(checked.values)
    ramp = _ramp(values.pop("ramp"), complaints) if "ramp" in values else ()
    process = values.setdefault("process", "trace" if has_trace else "all_at_once")
    if process == "trace" and not has_trace:
        complaints.add(f"workload.arrival.process is trace, without workload.trace; allowed: {', '.join(PROCESSES)}")
    uses, given = _USES[process], {*values} - {"process"} | ({"ramp"} if ramp else set())
    if "rate" in uses.needs and "ramp" in given:
        uses = _Use(needs=tuple(name for name in uses.needs if name != "rate"), takes=(*uses.takes, "ramp"))
    missing = [name for name in uses.needs if name not in {*given, *checked.wrong}]
    complaints.add(*(f"workload.arrival.{name} is missing; {process} needs: {_WHAT[name]}" for name in missing))
    allowed = {*uses.needs, *uses.takes, *(("think_time",) if turns else ())}
    wrong = [] if "process" in checked.wrong else sorted(given - allowed)
    for name in wrong:
        for_it = [other for other, use in _USES.items() if name in {*use.needs, *use.takes}]
        why = f"process {process}, which takes {', '.join(sorted(allowed)) or 'none of the others'}"
        meant = ", ".join(name for name in for_it if name != "trace") or "poisson, gamma, constant"
        whole = f"; {_replacing(stated, process, uses, allowed)}" if name == wrong[-1] else ""
        complaints.add(f"workload.arrival.{name} is stated with {why}; {name} is for {meant}{whole}")
    for name in {"think_time", "ramp_up"} & values.keys():
        values[f"{name}_s"] = values.pop(name)
    return Arrival(**values, ramp=ramp)


def _replacing(stated: object, process: str, uses: _Use, allowed: set[str]) -> str:
    """How a command line replaces all of a file's arrival by another process: only with what that takes."""
    values = {name: _SUCH_AS[name] for name in uses.needs if name in _SUCH_AS}
    values |= {name: value for name, value in stated.items() if name in allowed} if isinstance(stated, Mapping) else {}
    written = ", ".join(f"{name}: {value}" for name, value in {"process": process, **values}.items())
    return f'--set "workload.arrival={{{written}}}" replaces all of it'


def _ramp(stated: object, complaints: Complaints) -> tuple[tuple[float, float], ...]:
    """Rates with the times from which on they hold; of stages with their lengths too."""
    allowed = "allowed: a list of pairs [seconds, requests per second], such as [[60, 1], [60, 4]]"
    pairs: list[Any] = list(stated) if isinstance(stated, list | tuple) else []
    if not pairs or not all(isinstance(pair, list | tuple) and len(pair) == len(("seconds", "rate")) for pair in pairs):
        complaints.add(f"workload.arrival.ramp is {show(stated)}; {allowed}")
        return ()
    try:
        read = [(quantity(SECONDS, zero=True)(s), quantity(RATE, zero=True)(rate)) for s, rate in pairs]
    except InputError as error:
        complaints.add(f"workload.arrival.ramp has a value that {error}; {allowed}")
        return ()
    lengths, rates = [seconds for seconds, _ in read], [rate for _, rate in read]
    if rates[-1] == 0:
        complaints.add(
            "workload.arrival.ramp ends with a rate of 0, so that the load would never end; allowed: above 0"
        )
    begins = lengths if lengths[0] == 0 else [sum(lengths[:place]) for place in range(len(lengths))]
    if any(later <= earlier for earlier, later in pairwise(begins)):
        complaints.add(
            f"workload.arrival.ramp is {show(stated)}; where it begins at 0 its seconds are times, which rise"
        )
    return tuple(zip(begins, rates, strict=True))
