"""Start an engine for a measurement: its model folder, command, readiness and log, and the end of all its processes."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

from sightline.errors import InputError, WorkError
from sightline.launching import write
from sightline.launching.engines.requests import as_generation, model_argument
from sightline.measurement.models import build_plain_model
from sightline.measurement.processes import tree
from sightline.runs.credentials import Credentials
from sightline.scenario import Model, ServingScenario
from sightline.simulation.load import Requests

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
            f"the plan takes more than one command ({', '.join(launch.files)}); start it yourself, as sightline plan "
            "--launch writes it, and measure it by --url"
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
            f"plan.framework is {engine}, whose program {program} is not installed here; install it, or measure a "
            "server that runs by --url"
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
                raise WorkError(f"{words[0]} ended with status {server.returncode} before it answered: {why}")
            if time.monotonic() - begun > limit_s:
                why = last_line(log, credentials)
                raise WorkError(f"{words[0]} did not answer within {limit_s:g} s; its last words: {why}")
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
            raise WorkError(f"{words[0]} cannot be started: {(error.strerror or str(error)).lower()}") from error


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
    return lines[-1][:300] if lines else "it said nothing"


def end_of(log: Path, credentials: Credentials, size: int = LOG_KEPT) -> str:
    """Return the end of a log, without credentials."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - size))
            return credentials.hide(file.read().decode(errors="replace"))
    except OSError:
        return ""
