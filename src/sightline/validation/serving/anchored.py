"""Runs simulated with what one measured load of the same device taught (`simulation.anchoring`).

Which load teaches was settled before any was tried: of several runs on a device the first in the source's order, of a
single run its first requests. What taught is not tested.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sightline.validation.serving.suite import Log, MeasuredRun

if TYPE_CHECKING:
    from sightline.simulation.anchoring import ServedLoad

FIRST = 50
"""Requests of a single run that teach."""
GOALS_ON_A_RUN = {"ttft_s": "median 12 %", "tpot_s": "median 5 %", "latency_s": "median 5 %"}
"""By time; the middle of each is compared."""
GOALS_ON_REQUESTS = {"mean": "4 %", "p90": "10 %"}
"""By figure of a time."""
MEANS = ("ttft_s", "tpot_s")
ON_A_RUN = "Simulated with what the first run on the device taught, by the order of the source; that run is no case."
ON_REQUESTS = f"Simulated with what the first {FIRST} requests taught; figures are of the others."


def anchored_on_runs(log: Log) -> tuple[Log, ...]:
    """Return the runs of each device that a source has several runs on, anchored on the first of them."""
    return tuple(_of_device(log, device) for device, runs in Counter(log.devices).items() if runs > 1)


def anchored_on_requests(log: Log) -> Log:
    """Return the runs of a log, each anchored on its own first requests."""
    goals = {figure: GOALS_ON_REQUESTS.get(figure.split(".")[1], "") for figure in log.figures}
    anchored = _anchored(log, "anchored", ON_REQUESTS, goals)
    return replace(anchored, read=lambda: [_after_first(run) for run in log.read()])


def _of_device(log: Log, device: str) -> Log:
    def read() -> Sequence[MeasuredRun]:
        first, *others = (run for run, of in zip(log.read(), log.devices, strict=True) if of == device)
        return _taught(_load_of(first), others)

    devices = [of for of in log.devices if of == device]
    middles = [figure for figure in log.figures if figure.endswith((".mean", ".p50"))]
    goals = {figure: GOALS_ON_A_RUN[figure.split(".")[0]] for figure in middles}
    return replace(_anchored(log, f"anchored-{device}", ON_A_RUN, goals), devices=devices[1:], read=read)


def _anchored(log: Log, name: str, decision: str, goals: Mapping[str, str]) -> Log:
    """The same log by another name, of which the figures are compared that have goals."""
    decisions = (*log.decisions, decision)
    return replace(log, name=f"{log.name}-{name}", decisions=decisions, figures=tuple(goals), goals=goals)


def _after_first(run: MeasuredRun) -> MeasuredRun:
    (known,) = _taught(_load_of(run).of_first(FIRST), [run])
    return replace(known, counted=run.counted & (np.arange(len(run.requests)) >= FIRST))


def _taught(load: "ServedLoad", runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """The runs, with what a load taught about their servers."""
    from sightline.prediction.anchoring.anchored import learn
    from sightline.simulation.anchoring import anchor_of_load

    known = learn([anchor_of_load(load)]).requests
    return [replace(run, known=known) for run in runs]


def _load_of(run: MeasuredRun) -> "ServedLoad":
    """A run as an anchor takes it: with the times of its requests, or their means where the source has no log."""
    from sightline.loading.serving import serving_from_mapping
    from sightline.simulation.anchoring import ServedLoad

    return ServedLoad(
        name=run.name,
        scenario=serving_from_mapping(run.scenario),
        requests=run.requests,
        first_token_s=run.first_token_s,
        last_token_s=run.last_token_s,
        means={key: run.stated[f"{key}.mean"] for key in MEANS if f"{key}.mean" in run.stated},
        kv_tokens=run.kv_tokens,
    )
