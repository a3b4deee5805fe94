"""``report`` of a study: which results its table has, and how each is read from a profile."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.errors import nearest
from sightline.exploration.footprint import Electricity, power_w, rent_usd
from sightline.loading.checks import Complaints
from sightline.profile import LEVELS, MEMORY_PARTS, Profile, task_of
from sightline.profile.metrics import BOUNDS, Task
from sightline.quantities import show
from sightline.technology.budget import Budget
from sightline.technology.cost import made_for
from sightline.technology.synthesis import Made

CARBON: Final = "carbon_kg"
"""How keys of carbon begin."""
Derived: TypeAlias = Callable[[Profile, Electricity], Any]
"""Works out a result of a profile, with what its electricity stands for; None where it is not known."""

_SHARES: Final[Mapping[str, Callable[[Profile], tuple[Any, Any, Any]]]] = {
    "training": lambda p: (p.energy_per_step_j, p.step_time_s, p.scenario.workload.tokens_per_step),
    "generation": lambda p: (p.energy_j, _generated(p) / p.output_tokens_per_s, _generated(p)),
    "serving": lambda p: (p.energy_j, p.duration_s, p.output_tokens_per_s * p.duration_s),
}
"""Joules, seconds and tokens of a step, a batch or a load."""


def _generated(profile: Profile) -> Any:
    return profile.scenario.workload.batch * profile.scenario.workload.output_tokens


def _of_share(figure: Callable[[Any, Any, Any, Any, Electricity], Any]) -> Derived:
    """Return what works out a figure of joules, seconds, tokens and devices."""

    def of(profile: Profile, electricity: Electricity) -> Any:
        joules, seconds, tokens = _SHARES[profile.task.name](profile)
        return (
            None if joules is None else figure(joules, seconds, tokens, profile.scenario.cluster.devices, electricity)
        )

    return of


_OF_ALL: Final[Mapping[str, Derived]] = {
    "energy_j_per_token": _of_share(lambda joules, _, tokens, *__: joules / tokens),
    "carbon_kg_per_million_tokens": _of_share(
        lambda joules, _, tokens, __, electricity: electricity.carbon_kg(joules) * 1e6 / tokens
    ),
    "power_w": _of_share(lambda joules, seconds, _, devices, __: power_w(joules, devices, seconds)),
    CARBON: lambda p, electricity: None if p.energy_j is None else electricity.carbon_kg(p.energy_j),
}
_RENT: Final[Mapping[str, Derived]] = {
    "cost_usd_per_million_tokens": lambda p, _: (
        None if p.usd_per_hour is None else rent_usd(1, 1e6 / p.tokens_per_s, p.usd_per_hour)
    ),
}
DERIVED: Final[Mapping[str, Mapping[str, Derived]]] = {
    "training": {**_RENT, **_OF_ALL},
    "generation": _OF_ALL,
    "serving": _OF_ALL,
}
"""Results that a study works out itself, by task and key."""

MADE: Final[Mapping[str, Callable[[Budget, Made], Any]]] = {
    "device_cost_usd": lambda budget, _: made_for(budget).usd,
    "device_peak_flops": lambda _, made: made.device.peak_flops.get("bf16"),
    "device_l2_bytes": lambda _, made: made.device.l2_bytes,
    "device_frequency_hz": lambda _, made: made.frequency_hz,
    "device_tdp_w": lambda _, made: made.device.tdp_w,
}
"""Results of making a device of technology, by key; the cost is of good dies and memory, an estimate."""

DESIGN: Final = ("device_peak_flops", "device_l2_bytes", "device_frequency_hz")
"""What the best of a search of devices is told by."""


THROUGHPUT: Final = {
    "training": "tokens_per_s",
    "generation": "output_tokens_per_s",
    "serving": "output_tokens_per_s",
}
"""Work per second by task, which a rent is held against."""
USUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "training": ("step_time_s", "mfu", "memory_bytes.total"),
    "generation": ("ttft_s", "tpot_s", "latency_s", "output_tokens_per_s", "memory_bytes.total"),
    "serving": ("ttft_s.p90", "tpot_s.p90", "requests_per_s", "output_tokens_per_s"),
    "operator": ("time_s", "flops_per_s", "bytes_per_s"),
}
"""What is reported where a study does not say."""
MEMORY: Final = "memory_bytes.total"
"""What a point needs, by which those that do not fit are compared."""
COST: Final = "cost_usd_per_million_tokens"
"""What work costs, of tasks with a rate."""
BOUND: Final = "bound_level"
"""The level that takes most of a point's time: a column of every study."""


def read_reports(stated: object, workload: str, complaints: Complaints) -> tuple[str, ...]:
    """Return the result keys that a study of a task reports, mistakes noted."""
    task = task_of(workload)
    if task is None:
        return ()
    if stated is None:
        return USUAL[task.name]
    named = [stated] if isinstance(stated, str) else stated
    if not isinstance(named, list | tuple) or not named:
        complaints.add(f"report is {show(stated)}; allowed: a list of result keys, such as {task.whole}")
        return ()
    known = known_keys(task)
    wrong = [key for key in named if key not in known and key not in (BOUND, "fits")]
    complaints.add(
        *(
            f"report has {show(key)}, which is not a result of {task.name}{nearest(key, known) or _some(task)}"
            for key in wrong
        )
    )
    return tuple(dict.fromkeys(str(key) for key in named if key in known))


def _some(task: Task) -> str:
    return f"; allowed: {', '.join(USUAL[task.name])}, ... (list all with `sightline predict FILE --json`)"


def known_keys(task: Task) -> tuple[str, ...]:
    """Return the result keys that a study may report."""
    derived = tuple(DERIVED.get(task.name, ()))
    parts = [f"memory_bytes.{part}" for part in (*MEMORY_PARTS, "total")]
    parts += [f"phases.{phase}" for phase in task.phases]
    parts += [f"limits.{bound}" for bound in BOUNDS] + [f"levels.{level}" for level in LEVELS] if task.phases else []
    return (*(key for key, metric in task.figures.items() if metric.unit != "word"), *derived, *MADE, *parts)


def result_of(profile: Profile, key: str, electricity: Electricity) -> Any:
    """Return a result of a profile by its key; None where it is not known, or is none of a profile."""
    if key in MADE:
        return None
    derived = DERIVED.get(profile.task.name, {}).get(key)
    return profile.figure(key) if derived is None else derived(profile, electricity)


NO_LEVEL: Final = -1
_LEVEL_OF: Final = {"memory": "dram"}
"""The level of a bound that a simulation names."""


def level_codes(profile: Profile) -> NDArray[np.int8]:
    """Return the place in ``LEVELS`` of the level that takes most of the time, point by point."""
    seconds = profile.levels
    if not seconds:
        level = _LEVEL_OF.get(str(profile.bottleneck), str(profile.bottleneck))
        return np.asarray(LEVELS.index(level) if level in LEVELS else NO_LEVEL, dtype=np.int8)
    names = [name for name in LEVELS if name in seconds]
    codes = np.array([LEVELS.index(name) for name in names], dtype=np.int8)
    most, place = np.asarray(seconds[names[0]]), np.zeros((), dtype=np.int8)
    for i, name in enumerate(names[1:], start=1):
        place = np.where(seconds[name] > most, np.int8(i), place)
        most = np.maximum(most, seconds[name])
    return codes[place]


def level_names(codes: NDArray[np.int8]) -> NDArray[np.str_]:
    """Return the levels of codes; no word where there is none."""
    return np.array([*LEVELS, ""])[codes]
