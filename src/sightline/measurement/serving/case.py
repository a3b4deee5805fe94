"""Measure serving: a load sent to a running server, or to an engine that is started for it and ended afterwards."""

import asyncio
import contextlib
import os
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.loading.serving import serving_from_mapping
from sightline.measurement.machine import require
from sightline.measurement.models import check_checkpoint
from sightline.measurement.processes.isolation import Emit
from sightline.measurement.processes.suite import Case, Measured, Settings, case_of, measured, profile_of
from sightline.measurement.serving.engine import command_of, end_of, free_port, program_of, running, write_model
from sightline.measurement.serving.load import ClientSettings, Record, SentLoad, send_load
from sightline.measurement.serving.stream import Limits
from sightline.profile import Profile
from sightline.quantities import counted
from sightline.runs import Run, Store, credentials
from sightline.runs.credentials import Credentials
from sightline.scenario import ServingScenario
from sightline.simulation.load import Requests, joined, load_of
from sightline.simulation.replay import Records, outcome_of
from sightline.simulation.results import figures_of

LATE_S = 0.01
"""Lateness of sending from which a remark is due."""


def remarks_on(records: Records, *, counts: bool) -> Iterator[str]:
    """Yield what to know before the figures are believed: failures, other lengths than asked, lateness."""
    failed = [row for row in records if row["failure"]]
    if failed:
        reasons = ", ".join(
            f"{count} x {reason}" for reason, count in Counter(r["failure"] for r in failed).most_common()
        )
        first = next((row["detail"] for row in failed if row["detail"]), "")
        yield f"{len(failed)} of {len(records)} requests failed: {reasons}{f' ({first})' if first else ''}"
    done = [row for row in records if not row["failure"]]
    if not counts:
        yield "the server does not say how many tokens it processed; chunks are counted as tokens"
    other = [row["server_prompt_tokens"] - row["prompt_tokens"] for row in done if row["server_prompt_tokens"] >= 0]
    if any(other):
        unlike = np.array([difference for difference in other if difference])
        yield (
            f"the server processed {counted(unlike.size, 'prompt')} with other lengths than asked, by "
            f"{unlike.min():+d} to {unlike.max():+d} tokens"
        )
    short = [row for row in done if row["server_output_tokens"] != row["output_tokens"]]
    if short:
        answers = counted(len(short), "answer")
        yield f"the server gave {answers} of another length than asked: it does not follow ignore_eos"
    several = sum(max(row["server_output_tokens"] - len(row["chunk_s"]), 0) for row in done)
    if several:
        yield f"{counted(several, 'token')} came together with others in a chunk; times between them count as 0"
    late = np.array([row["sent_s"] - row["intended_s"] for row in records])
    if late.size and (worst := float(np.percentile(late, 99))) > LATE_S:
        yield f"1 % of the requests were sent over {worst * 1e3:.0f} ms late: is this machine busy?"


CASE = f"{__name__}:measure_case"
START_S = 900.0
"""What an engine may take to start."""
LOG = "server.log"
"""File of a run with the end of the engine's log."""


def cases_of(scenarios: Sequence[ServingScenario], settings: Settings) -> list[Case]:
    """Return a case for each scenario.

    Raises:
        InputError: A package is missing, the variable with the key is not set, or an engine cannot be started here.
    """
    asked = settings.serving
    require("aiohttp")
    if asked.key_variable and not os.environ.get(asked.key_variable):
        raise InputError(f"--api-key-env names {asked.key_variable}, which is not set")
    problems: list[str] = []
    for scenario in scenarios:
        try:
            _check(scenario, settings)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    how = {"weights": settings.weights, "quick": settings.quick, **asdict(asked)}
    return [case_of(scenario, CASE, settings.effort.limit_s, **how) for scenario in scenarios]


def measure_serving(scenario: ServingScenario, settings: Settings) -> Profile:
    """Measure one scenario in this process; nothing of it is stored.

    Raises:
        InputError: A package is missing, or the engine cannot be started here.
        WorkError: No server answers.
    """
    (case,) = cases_of([scenario], settings)
    records: list[Mapping[str, Any]] = []
    result = measure_case(case.arguments, records.append)
    return profile_of(scenario, result).replace(outcome=outcome_of(records))


def measured_loads(cases: Sequence[Case], runs: Sequence[Run], store: Store) -> list[Measured]:
    """Return each case's scenario with its run and, where that ended well, its profile with every request."""
    return [_with_requests(one, store) for one in measured(cases, runs, store)]


def _with_requests(one: Measured, store: Store) -> Measured:
    if one.profile is None:
        return one
    return replace(one, profile=one.profile.replace(outcome=outcome_of(store.samples(one.run).to_dicts())))


def _check(scenario: ServingScenario, settings: Settings) -> None:
    """Refuse what cannot be started, before anything runs."""
    if settings.weights is not None and not settings.serving.url:
        check_checkpoint(scenario.model, Path(settings.weights))
    if settings.serving.url:
        return
    engine = scenario.plan.engine.name
    if not settings.serving.command:
        program_of(command_of(scenario, _load(scenario), Path("model"), 0), engine)
    if settings.weights is None and _takes_a_folder(settings.serving.command):
        require("torch", "transformers", "tokenizers")


def measure_case(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure a scenario; ``arguments`` are its mapping and those of ``cases_of``. Each request is a sample."""
    scenario = serving_from_mapping(arguments["scenario"])
    records: list[Record] = []

    def keep(record: Record) -> None:
        records.append(record)
        emit(record)

    load = _load(scenario)
    with _server(scenario, load, arguments) as server:
        sent = asyncio.run(send_load([load], _client_settings(scenario, arguments, server), keep))
        return result_of(scenario, records, sent, server) | server.files()


def _load(scenario: ServingScenario) -> Requests:
    """The whole load, held in memory: a measurement has far fewer requests than a simulation may have."""
    return joined(list(load_of(scenario)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """Where the load goes."""

    url: str
    model: str = ""
    tokenizer: Path | None = None
    command: Sequence[str] = ()
    """What started it; empty where it ran already."""
    start_s: float = 0.0
    log: Path | None = None
    credentials: Credentials = field(default_factory=Credentials)
    """What its command and its log may hold, and nothing that is kept."""

    def files(self) -> dict[str, Any]:
        """The files of the run."""
        return {} if self.log is None else {"files": {LOG: end_of(self.log, self.credentials)}}


@contextlib.contextmanager
def _server(scenario: ServingScenario, load: Requests, arguments: Mapping[str, Any]) -> Iterator[_Server]:
    """A server that runs, or an engine that is started."""
    weights = Path(arguments["weights"]) if arguments["weights"] else None
    if arguments["url"]:
        yield _Server(url=arguments["url"], model=arguments["model"], tokenizer=weights)
        return
    engine = scenario.plan.engine.name
    with tempfile.TemporaryDirectory() as scratch:
        folder, port = weights or Path(scratch) / "model", free_port()
        if weights is None and _takes_a_folder(arguments["command"]):
            write_model(scenario.model, scenario.plan.dtype, folder)
        words = _command(scenario, load, arguments["command"], folder, port)
        log, url = Path(scratch) / LOG, f"http://127.0.0.1:{port}"
        known = credentials.of_command(words) | credentials.of_request(_headers(arguments))
        with running(words, url, log, arguments["start_s"] or START_S, engine, known) as start_s:
            model = arguments["model"] or (str(folder) if folder.is_dir() else "")
            tokenizer = folder if folder.is_dir() else None
            yield _Server(
                url=url,
                model=model,
                tokenizer=tokenizer,
                command=words,
                start_s=start_s,
                log=log,
                credentials=known,
            )


def _takes_a_folder(command: str) -> bool:
    return not command or "{model}" in command


def _command(scenario: ServingScenario, load: Requests, stated: str, folder: Path, port: int) -> list[str]:
    """The user's own command, or the plan's."""
    if stated:
        return [word.replace("{model}", str(folder)).replace("{port}", str(port)) for word in shlex.split(stated)]
    return program_of(command_of(scenario, load, folder, port), scenario.plan.engine.name)


def _headers(arguments: Mapping[str, Any]) -> dict[str, str]:
    """What authorizes requests."""
    variable = arguments["key_variable"]
    return {"Authorization": f"Bearer {os.environ[variable]}"} if variable else {}


def _client_settings(scenario: ServingScenario, arguments: Mapping[str, Any], server: _Server) -> ClientSettings:
    arrival, stall_s = scenario.workload.arrival, arguments["stall_s"]
    closed = arrival.process == "closed"
    return ClientSettings(
        url=server.url,
        model=server.model,
        vocabulary=int(scenario.model.vocab_size),
        tokenizer=server.tokenizer,
        chat=arguments["chat"],
        headers=_headers(arguments),
        key_variable=arguments["key_variable"],
        concurrency=arrival.concurrency or 1 if closed else 0,
        think_s=arrival.think_time_s if closed else 0.0,
        ramp_up_s=arrival.ramp_up_s,
        seed=scenario.workload.seed,
        limits=Limits(stall_s=stall_s, first_s=stall_s) if stall_s else Limits(),
        warm_up=arguments["warm_up"],
    )


def result_of(scenario: ServingScenario, records: Sequence[Record], sent: SentLoad, server: _Server) -> dict[str, Any]:
    """Return the result keys of a measured load."""
    outcome = outcome_of(records)
    figures = figures_of(outcome, scenario.workload.slo)
    known = bool(outcome.cached_tokens.any())
    late = np.array([record["sent_s"] - record["intended_s"] for record in records])
    return {
        **figures,
        "prefix_hit_rate": figures["prefix_hit_rate"] if known else None,
        "source": "measured",
        "fits": True,
        "limits": {},
        "memory_bytes": {},
        "capacity_requests_per_s": None,
        "energy_j": None,
        "interval": {key: list(ends) for key, ends in figures["interval"].items()},
        "evidence": {"engine": "measured"},
        "measurement": {
            "url": credentials.without_credentials(server.url) if not server.command else "",
            "command": list(map(server.credentials.hide, server.command)),
            "start_s": server.start_s,
            "path": "chat" if sent.request_format.chat else "completions",
            "prompts": type(sent.request_format.encoding).__name__,
            "fields": dict(sent.request_format.fields),
            "added_prompt_tokens": sent.request_format.overhead,
            "late_s": {"p50": float(np.median(late)), "p99": float(np.percentile(late, 99)), "max": float(late.max())},
        },
        "warnings": [*figures["warnings"], *remarks_on(records, counts=sent.request_format.counts)],
    }
