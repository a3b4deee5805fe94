"""Cases in order, each stored as it ends; a rerun goes on where the last one was stopped, however that was."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.errors import InputError, WorkError
from sightline.loading import to_mapping
from sightline.loading.clusters.this_machine import THIS_MACHINE
from sightline.measurement.machine.record import conditions, contention, environment_class, record_environment
from sightline.measurement.processes.case import FINISHED, Outcome
from sightline.measurement.processes.isolation import LIMIT_S, run_case
from sightline.measurement.processes.nodes import Nodes
from sightline.progress import SILENT, Progress
from sightline.runs import Run, Store

VARIABLES = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
"""Environment of what is measured: the C library keeps freed memory, since fresh pages take longer than many a
kernel."""


LEVELS = ("end-to-end", "module", "operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured of each training scenario; the defaults are those of arXiv 2311.03687."""

    warm_up: int = 30
    steps: int = 100
    repeats: int = 3
    """Independent runs, each by new processes."""
    levels: Sequence[str] = ("end-to-end", "module")
    """Of ``LEVELS``."""
    limit_s: float = 3600.0
    """What a scenario may take, all repeats together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Which server a load is sent to, and how."""

    url: str = ""
    """Of a server that runs; empty: the plan's engine is started."""
    model: str = ""
    """As the server calls it; empty: the only one that it lists, or the folder that the engine was started with."""
    chat: bool = False
    """Chats instead of completions."""
    command: str = ""
    """What starts the engine instead of what the plan comes to; {model} and {port} stand for folder and port."""
    key_variable: str = ""
    """Environment variable with the key; the key itself is stored nowhere."""
    warm_up: int = 4
    """Requests before the measured ones."""
    stall_s: float | None = None
    """Seconds without a further byte after which a request is given up; None: 120 of an answer that has begun."""
    start_s: float | None = None
    """What an engine may take to start; None: as usual."""


QUICK = Effort(warm_up=3, steps=10, repeats=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds for all scenarios of a request."""

    implementation: str | None = None
    """Which of several ways that PyTorch or transformers have; None leaves it to the plan."""
    quick: bool = False
    """Fewer runs of generation, and fewer repeats of operators and answers."""
    effort: Effort = field(default_factory=Effort)
    weights: str | None = None
    """Folder of a checkpoint; None draws random weights."""
    force: bool = False
    """Run also what is predicted not to fit."""
    nodes: Nodes = field(default_factory=Nodes)
    serving: Serving = field(default_factory=Serving)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing to measure."""

    name: str
    entry: str
    """``package.module:function``, called as ``run_case`` says. Of its result, ``rows`` is stored as the profile's
    table, and ``files`` as texts by their names."""
    arguments: Mapping[str, Any]
    scenario: Mapping[str, Any] = field(default_factory=dict)
    """What it is the measurement of, as a scenario file would say it."""
    measures: Any = None
    """The same as an object."""
    limit_s: float = LIMIT_S
    """Seconds that it may take."""
    variables: Mapping[str, str] = field(default_factory=lambda: VARIABLES)
    """Environment variables set for it."""

    def run(self, on_sample: Callable[[Mapping[str, Any]], None] | None = None) -> Outcome:
        """Run it in processes of its own and return how it ended."""
        return run_case(self.entry, self.arguments, self.limit_s, on_sample, variables=self.variables)

    def key(self, environment: Mapping[str, Any]) -> str:
        """Return the content hash of the case on machines of this environment's class.

        The time limit does not count, nor do figures of this machine, which come out a little different whenever they
        are detected.
        """
        content = {
            "entry": self.entry,
            "arguments": _without_figures(self.arguments),
            "scenario": _without_figures(self.scenario),
            "variables": self.variables,
            "environment": environment_class(environment),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def case_of(scenario: Any, entry: str, limit_s: float = LIMIT_S, **arguments: Any) -> Case:
    """Return the measurement of a scenario; ``entry`` gets its mapping and the other arguments."""
    mapping = to_mapping(scenario)
    about = getattr(scenario.workload, "operator", "") or f"{scenario.model.name} {scenario.workload.task}"
    return Case(
        name=scenario.name or about,
        entry=entry,
        arguments={"scenario": mapping, **arguments},
        scenario=mapping,
        measures=scenario,
        limit_s=limit_s,
    )


def _without_figures(content: Any) -> Any:
    """``content`` with every cluster of processes of this machine by name and number alone."""
    if isinstance(content, Mapping):
        device = content.get("device")
        if isinstance(device, Mapping) and device.get("name") == THIS_MACHINE:
            return {"device": THIS_MACHINE, "devices": content.get("devices"), "per_node": content.get("per_node")}
        return {key: _without_figures(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_figures(value) for value in content]
    return content


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A case of a suite that begins or has ended."""

    case: Case
    run: Run | None = None
    """The stored run; None while the case has only begun."""
    resumed: bool = False
    """The run is of an earlier time: the case was not run again."""


OnStep = Callable[[Step], None]


def run_suite(
    cases: Sequence[Case],
    store: Store,
    *,
    suite: str = "",
    rerun: bool = False,
    on_step: OnStep = lambda _: None,
    progress: Progress = SILENT,
) -> list[Run]:
    """Run cases one after the other and return their stored runs in the same order.

    A case that ended before on a machine of this class (ok, out of memory, timeout, unsupported) is not run again;
    one that crashed or was interrupted is.

    Args:
        cases: What to measure.
        store: Where the runs go.
        suite: Name of the suite, stored with each run.
        rerun: Run also what has ended before.
        on_step: Called when a case begins and when it has been stored.
        progress: Counts the cases.

    Raises:
        KeyboardInterrupt: Ctrl-C; the case at hand is stored as interrupted, nothing that ended is lost.
        WorkError: A run could not be stored; the ones before it are.
        Cancelled: Somebody asked to stop; nothing that ended is lost.
    """
    environment = record_environment()
    ended = {} if rerun else store.ended(FINISHED)
    runs = []
    progress.begin(len(cases), "measuring")
    for case in cases:
        progress.check()
        key = case.key(environment)
        resumed = key in ended
        if not resumed:
            on_step(Step(case=case))
            ended[key] = _run_and_store(case, store, suite, key, environment)
        run = ended[key]
        on_step(Step(case=case, run=run, resumed=resumed))
        progress.advance()
        runs.append(run)
        if not resumed and run.status == "interrupted":
            raise KeyboardInterrupt
    return runs


def complain(runs: Sequence[Run]) -> None:
    """Raise what kept scenarios from being measured: the request's mistakes, else what failed."""
    wrong = [run.reason for run in runs if run.status == "unsupported"]
    if wrong:
        raise InputError(list(dict.fromkeys(wrong)))
    failed = [f"{run.name}: {run.reason}" for run in runs if run.status != "ok"]
    if failed:
        raise WorkError("\n".join(failed))


def _run_and_store(case: Case, store: Store, suite: str, key: str, environment: Mapping[str, Any]) -> Run:
    writer = store.begin(case.name, scenario=case.scenario, suite=suite, key=key)
    before = conditions()
    outcome = case.run(writer.sample)
    after = conditions()
    disturbed = contention(before, after, outcome.others_cpu_fraction)
    result = dict(outcome.result)
    rows, files = result.pop("rows", ()), result.pop("files", {})
    return writer.finish(
        status=outcome.status,
        reason=outcome.reason,
        result=result,
        rows=rows,
        files=files,
        environment={
            **environment,
            "before": before,
            "after": after,
            "contended": bool(disturbed),
            "contention": disturbed,
            "case": {
                "seconds": outcome.seconds,
                "cpu_s": outcome.cpu_s,
                "peak_memory_bytes": outcome.peak_memory_bytes,
            },
        },
        output=outcome.output,
    )
