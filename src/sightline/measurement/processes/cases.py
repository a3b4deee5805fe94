"""Run cases in order, store each as it ends, and read stored runs as profiles; a rerun resumes the last one.

Of several nodes that measure together, the first decides what runs next, stores and prints; the others follow.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from sightline.errors import InputError, WorkError, refuse
from sightline.loading import to_mapping
from sightline.loading.clusters.this_machine import THIS_MACHINE
from sightline.measurement.machine import conditions, contention, environment_class, record_environment
from sightline.measurement.processes.isolation import FINISHED, FORCED, LIMIT_S, Outcome, run_case
from sightline.profile import BOUNDS, MEMORY_PARTS, Profile, Row, task_of
from sightline.progress import SILENT, Progress
from sightline.runs import Run, Store

FIRST_CONTACT = timedelta(minutes=5)
NEXT_CASE = timedelta(hours=12)
"""How long a node waits for the first one to begin another scenario."""
FAREWELL_S = 30.0
_LEFT, _NEXT = "sightline/left", "sightline/next"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Where this node stands among those that measure together."""

    count: int = 1
    rank: int = 0
    host: str = ""
    port: int = 0
    served: bool = False
    """torchrun runs the server."""
    local_rank: int | None = None
    """Under torchrun, where every process is a node of one device: which device of the machine that is."""
    local_count: int = 1
    """Nodes on this machine."""

    def to_dict(self, number: int) -> dict[str, Any]:
        """As an argument of the request's scenario of this number.

        It is empty for a single node, whose ranks meet by a file.
        """
        return {} if self.count == 1 else {**asdict(self), "prefix": f"sightline/ranks/{number}"}


def nodes_of(count: int | None, rank: int | None, rendezvous: str | None) -> Nodes:
    """Return what options say, or torchrun's environment where it started this process.

    Raises:
        InputError: Options contradict each other, or the rendezvous point is none.
    """
    if count is None and rank is None and rendezvous is None:
        return _of_torchrun(os.environ) if "TORCHELASTIC_RUN_ID" in os.environ else Nodes()
    count, rank = count or 1, rank or 0
    if not 0 <= rank < count:
        raise InputError(f"--node-rank is {rank}; allowed with --nnodes {count}: 0 to {count - 1}")
    if count == 1:
        return Nodes()
    host, _, port = (rendezvous or "").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise InputError(f"--rendezvous is {rendezvous or 'missing'}; needed with --nnodes: HOST:PORT of node 0")
    return Nodes(count=count, rank=rank, host=host, port=int(port))


def _of_torchrun(environment: Mapping[str, str]) -> Nodes:
    return Nodes(
        count=int(environment["WORLD_SIZE"]),
        rank=int(environment["RANK"]),
        host=environment["MASTER_ADDR"],
        port=int(environment["MASTER_PORT"]),
        served=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        local_rank=int(environment["LOCAL_RANK"]),
        local_count=int(environment["LOCAL_WORLD_SIZE"]),
    )


class Rendezvous:
    """The key-value store that the nodes share."""

    def __init__(self, nodes: Nodes, store: Any) -> None:
        self._nodes, self._store, self._turn = nodes, store, 0

    def announce(self, number: int | None) -> None:
        """First node: the scenario of this number is run next; None ends the request."""
        self._store.set(f"{_NEXT}/{self._turn}", json.dumps(number))
        self._turn += 1

    def announced(self) -> Iterator[int]:
        """Other nodes: the numbers of the scenarios as they are announced."""
        while True:
            key = f"{_NEXT}/{self._turn}"
            try:
                self._store.wait([key], NEXT_CASE)
                number = json.loads(self._store.get(key))
            except Exception as error:
                raise WorkError(f"the first node at {self._nodes.host}:{self._nodes.port} is gone") from error
            self._turn += 1
            if number is None:
                return
            yield number

    def leave(self) -> None:
        """Leave; the first node waits until all others have left, since it may run the server."""
        self._store.add(_LEFT, 1)
        deadline = time.monotonic() + FAREWELL_S
        while self._nodes.rank == 0 and time.monotonic() < deadline:
            if self._store.add(_LEFT, 0) >= self._nodes.count:
                return
            time.sleep(0.05)


@contextmanager
def rendezvous_of(nodes: Nodes) -> Iterator[Rendezvous]:
    """Meet the other nodes.

    Raises:
        InputError: The port is taken, on the first node.
        WorkError: The first node does not answer, on the others.
    """
    import torch.distributed

    dist: Any = torch.distributed
    serves = nodes.rank == 0 and not nodes.served
    try:
        store = dist.TCPStore(nodes.host, nodes.port, is_master=serves, timeout=FIRST_CONTACT, wait_for_workers=False)
    except Exception as error:
        place = f"{nodes.host}:{nodes.port}"
        if serves:
            raise InputError(
                f"cannot listen on --rendezvous {place}; the port may be in use: {_first(error)}"
            ) from error
        raise WorkError(f"the first node at {place} does not answer: {_first(error)}") from error
    rendezvous = Rendezvous(nodes, store)
    try:
        yield rendezvous
    finally:
        if nodes.rank == 0:
            rendezvous.announce(None)
        # If the first node is gone, there is no other to wait for.
        with suppress(RuntimeError):
            rendezvous.leave()


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__


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
    refuse([run.reason for run in runs if run.status == "unsupported"])
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


PARTS = ("source", "fits", "phases", "limits", "memory_bytes", "evidence", "measurement")
ENERGY = ("energy_per_step_j", "energy_j")
UNSTEADY = 0.1
"""Width of an interval over its median from which a remark is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A scenario and the run it is stored in."""

    scenario: Any
    run: Run
    profile: Profile | None
    """None where the run did not end well: ``run.status`` and ``run.reason`` say why."""


def measured(cases: Sequence[Case], runs: Sequence[Run], store: Store) -> list[Measured]:
    """Return each case's scenario with its run and, where that ended well, its profile."""
    return [
        Measured(
            scenario=case.measures,
            run=run,
            profile=profile_of(case.measures, run.result, store.rows(run).to_dicts()) if run.status == "ok" else None,
        )
        for case, run in zip(cases, runs, strict=True)
    ]


def profile_of(scenario: Any, result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] = ()) -> Profile:
    """Return stored result keys and rows as a profile; metrics that follow from others are derived anew."""
    task = task_of(scenario.workload.task)
    metrics = {} if task is None else task.metrics
    stated: dict[str, Any] = {
        key: result[key] for key, metric in metrics.items() if metric.formula is None and key in result
    }
    given: dict[str, Any] = {key: result[key] for key in PARTS if key in result}
    return Profile(
        scenario=scenario,
        source=given.pop("source"),
        interval={
            key: (float(low), None if high is None else float(high)) for key, (low, high) in result["interval"].items()
        },
        rows=[Row.from_mapping(row) for row in rows],
        warnings=tuple(result["warnings"]),
        **given,
        **{key: float("nan") if key in ENERGY and value is None else value for key, value in stated.items()},
    )


def why_too_large(predicted: Profile) -> str:
    """Return why a scenario is not run, with the changes that would fit; empty where it is predicted to fit."""
    if predicted.fits:
        return ""
    from sightline.planning.unfit import nearest_to

    several = (f"{_in_words(near.set)} {near.sentence}" for near in nearest_to(predicted))
    return "; ".join((*predicted.advice, *several, FORCED))


def _in_words(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in changes.items())


def held_bytes(memory: Mapping[str, float]) -> float:
    """Return the peak of the process, or of what the device's allocator took and what was taken before."""
    return memory["process"] if "process" in memory else memory["before"] + memory["reserved"]


def memory_by_part(memory: Mapping[str, float], states: Mapping[str, float]) -> dict[str, float]:
    """Return bytes by part: ``states`` such as weights, what was there before, and what a step needed on top."""
    parts = {**dict.fromkeys(MEMORY_PARTS, 0.0), **states, "framework": memory["before"]}
    if "reserved" in memory:
        parts["buffers"] = memory["reserved"] - memory["allocated"]
    parts["activations"] = max(held_bytes(memory) - sum(parts.values()), 0.0)
    return {**parts, "total": sum(parts.values())}


def limits_of(rows: Sequence[Mapping[str, Any]], whole_s: float) -> dict[str, float]:
    """Return ``whole_s`` split by what bounds it, in the proportions of the rows' seconds."""
    total = sum(row["time_s"] for row in rows)
    return {bound: sum(row["time_s"] for row in rows if row["bound"] == bound) / total * whole_s for bound in BOUNDS}


def remarks_on_times(
    low_s: float, high_s: float, median_s: float, *, stable: bool = True, what: str = "median"
) -> list[str]:
    """Return what to know before a time is believed."""
    found = [] if stable else ["step times had not settled after the warm-up"]
    if high_s - low_s > UNSTEADY * median_s:
        share = 50 * (high_s - low_s) / median_s
        found.append(f"the {what} varies by {share:.0f} %; check whether the machine is busy")
    return found
