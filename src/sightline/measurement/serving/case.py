"""Measure serving: a load sent to a running server, or to an engine that is started for it and ended afterwards."""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np

from sightline.errors import InputError, WorkError, noted, reason, refuse
from sightline.launching import write
from sightline.launching.engines.requests import as_generation, model_argument
from sightline.loading.serving import serving_from_mapping
from sightline.measurement.machine import require
from sightline.measurement.models import build_plain_model, check_checkpoint
from sightline.measurement.processes import tree
from sightline.measurement.processes.cases import Case, Measured, Settings, case_of, measured, profile_of
from sightline.measurement.processes.isolation import Emit
from sightline.measurement.serving.load import ClientSettings, Record, SentLoad, send_load
from sightline.measurement.serving.stream import Limits
from sightline.profile import Profile
from sightline.quantities import counted
from sightline.runs import Run, Store, credentials
from sightline.runs.credentials import Credentials
from sightline.scenario import Model, ServingScenario
from sightline.simulation.load import Requests, joined, load_of
from sightline.simulation.replay import Records, outcome_of
from sightline.simulation.results.summary import figures_of

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def write_model(model: Model, dtype: str, folder: Path) -> None:
    """Write weights, configuration and tokenizer of a model; nothing ends its answers before their asked length.

    Raises:
        UnsupportedCaseError: No class of transformers has such layers.
    """
    built: Any = build_plain_model(model, dtype=dtype)
    for settings in (built.config, built.generation_config):
        settings.bos_token_id = settings.eos_token_id = settings.pad_token_id = None
    built.config.use_cache = True
    built.save_pretrained(folder)
    _write_tokenizer(int(model.vocab_size), folder)


def _write_tokenizer(size: int, folder: Path) -> None:
    """Write a tokenizer of words: text of n words is n tokens, and a streamed token is never held back."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = {f"w{number}": number for number in range(size)}
    tokenizer: Any = Tokenizer(models.WordLevel(names, unk_token="w0"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "unk_token": "w0",
        "pad_token": "w0",
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


READY_PATHS: Final = ("/health", "/v1/models")
LOOK_EVERY_S = 0.2
PATIENCE_S = 15.0
"""What an engine may take to end by itself."""
LOG_KEPT = 1_000_000
"""Bytes of the log's end that are kept."""
PROCESSOR: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "2"},
}
"""Environment that engines need on a processor, unless it is set."""


def command_of(scenario: ServingScenario, load: Requests, folder: Path, port: int) -> list[str]:
    """Return the command that serves a model's folder as the scenario's plan says.

    Raises:
        InputError: The plan cannot be launched, or takes several servers.
    """
    asked = as_generation(scenario, load)
    launch = write(asked)
    if launch.files:
        raise InputError(
            f"the plan needs more than one command ({', '.join(launch.files)}); start it with the files of "
            "`sightline plan --launch`, then measure it with --url"
        )
    named, _ = model_argument(asked)
    words = shlex.split(launch.command.replace("\\\n", " "))
    words = [str(folder) if word == named else word for word in words]
    words[words.index("--port") + 1] = str(port)
    return words


def program_of(words: Sequence[str], engine: str) -> list[str]:
    """Return the command with its program's path; raise `InputError` where it is not installed."""
    # Variables that an engine takes stand before it.
    at = next(place for place, word in enumerate(words) if word != "env" and "=" not in word)
    program = words[at]
    beside = Path(sys.executable).parent / program
    found = shutil.which(program) or (str(beside) if beside.is_file() else None)
    if found is None:
        raise InputError(
            f"plan.framework is {engine}, but {program} is not installed; install it, or measure a running "
            "server with --url"
        )
    return [*words[:at], sys.executable if program == "python" else found, *words[at + 1 :]]


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


@contextlib.contextmanager
def running(
    words: Sequence[str],
    url: str,
    log: Path,
    limit_s: float,
    engine: str = "",
    credentials: Credentials = Credentials(),  # noqa: B008 - immutable
) -> Iterator[float]:
    """Start an engine, wait until it answers, and end all its processes afterwards; gives the seconds it took to start.

    Raises:
        WorkError: It ended, or did not answer in time.
    """
    environment = {**PROCESSOR.get(engine, {}), **os.environ, "PYTHONUNBUFFERED": "1"}
    begun = time.monotonic()
    server = _started(words, environment, log)
    try:
        while not _answers(url):
            if server.poll() is not None:
                why = last_line(log, credentials)
                raise WorkError(f"{words[0]} exited with status {server.returncode} before it answered: {why}")
            if time.monotonic() - begun > limit_s:
                why = last_line(log, credentials)
                raise WorkError(f"{words[0]} did not answer within {limit_s:g} s; last output: {why}")
            time.sleep(LOOK_EVERY_S)
        yield time.monotonic() - begun
    finally:
        _end(server)


def _started(words: Sequence[str], environment: Mapping[str, str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as written:
        try:
            return subprocess.Popen(  # noqa: S603 - the plan's engine, or the user's own command
                words,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise WorkError(f"{words[0]} cannot be started: {reason(error).lower()}") from error


def _answers(url: str) -> bool:
    for path in READY_PATHS:
        try:
            with urlopen(f"{url}{path}", timeout=5.0) as answer:  # noqa: S310 - http on this machine
                return bool(answer.status == 200)
        except HTTPError as error:
            if error.code != 404:
                return False
        except OSError:
            return False
    return False


def _end(server: "subprocess.Popen[bytes]") -> None:
    """Ask the engine to end, then end whatever of it is left."""
    family = tree.Descendants(server.pid)
    family.look()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(PATIENCE_S)
    tree.end_all(family.look, group=server.pid)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(1.0)


def last_line(log: Path, credentials: Credentials) -> str:
    """Return the last line of a log that says something."""
    lines = [line.strip() for line in end_of(log, credentials, 8000).splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no output"


def end_of(log: Path, credentials: Credentials, size: int = LOG_KEPT) -> str:
    """Return the end of a log, without credentials."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - size))
            return credentials.hide(file.read().decode(errors="replace"))
    except OSError:
        return ""


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
        yield "the server does not report token counts; counting chunks as tokens"
    other = [row["server_prompt_tokens"] - row["prompt_tokens"] for row in done if row["server_prompt_tokens"] >= 0]
    if any(other):
        unlike = np.array([difference for difference in other if difference])
        yield (
            f"the server processed {counted(unlike.size, 'prompt')} with a different length, by "
            f"{unlike.min():+d} to {unlike.max():+d} tokens"
        )
    short = [row for row in done if row["server_output_tokens"] != row["output_tokens"]]
    if short:
        answers = counted(len(short), "answer")
        yield f"the server returned {answers} of a different length; it ignores ignore_eos"
    several = sum(max(row["server_output_tokens"] - len(row["chunk_s"]), 0) for row in done)
    if several:
        yield f"{counted(several, 'token')} arrived in a chunk with others; times between them count as 0"
    late = np.array([row["sent_s"] - row["intended_s"] for row in records])
    if late.size and (worst := float(np.percentile(late, 99))) > LATE_S:
        yield (f"1 % of the requests were sent more than {worst * 1e3:.0f} ms late; check whether this machine is busy")


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
        raise InputError(f"--api-key-env is {asked.key_variable}, which is not set")
    problems: list[str] = []
    for scenario in scenarios:
        with noted(problems):
            _check(scenario, settings)
    refuse(problems)
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
    closed, timeout_s = arrival.process == "closed", scenario.workload.timeout_s
    limits = Limits(stall_s=stall_s, first_s=stall_s) if stall_s else Limits()
    return ClientSettings(
        url=server.url,
        model=server.model,
        vocabulary=int(scenario.model.vocab_size),
        tokenizer=server.tokenizer,
        chat=arguments["chat"],
        headers=_headers(arguments),
        key_variable=arguments["key_variable"],
        concurrency=arrival.concurrency or int(closed),
        closed=closed,
        think_s=arrival.think_time_s if closed else 0.0,
        ramp_up_s=arrival.ramp_up_s,
        seed=scenario.workload.seed,
        sampling={} if scenario.workload.sampling is None else scenario.workload.sampling.fields,
        limits=limits if timeout_s is None else replace(limits, total_s=timeout_s),
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
