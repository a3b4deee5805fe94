"""Read the commands of serving engines back: the scenario that their servers make up."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sightline.catalog.yaml12 import parse
from sightline.errors import InputError
from sightline.launching.hugging_face import model_of
from sightline.launching.launch import Reading
from sightline.launching.options import Options, not_read
from sightline.launching.shell import commands_of
from sightline.launching.source import Source
from sightline.loading.sources import read_text
from sightline.scenario.generation import DEGREES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """How an engine's commands are read."""

    engine: str
    """As ``plan.framework`` names it."""
    programs: Sequence[Sequence[str]]
    """Words that begin its command, the first without its folder."""
    image: str
    """What its containers are called."""
    plan: Callable[[Options, str], Mapping[str, Any]]
    """Keys of ``plan`` that a server's options say; the text is the catalog's name of its model."""
    models: Sequence[str] = ("model", "model-path")
    """Options that name the model."""
    called: Callable[[str], str] = field(default=lambda written: written)
    """The repository or folder that the written model stands for."""
    positional: bool = False
    """Whether the first plain word names it."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    flags: Collection[str] = ()
    role: Callable[[Options], str] = field(default=lambda _: "")
    """prefill or decode of servers that do one of them."""
    tiers: Callable[[Options], bool] = field(default=lambda _: False)
    """Whether a server keeps evicted keys and values in memories behind the device's."""
    later_node: Callable[[Options], bool] = field(default=lambda _: False)
    """Whether a command joins a server that another one starts."""
    longest: str = ""
    """Option with the most tokens of a sequence."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Options by the variables of the environment that stand for them."""
    files: Sequence[str] = ()
    """Options that name a YAML file with further ones."""
    files_win: bool = False
    """Whether what such a file says replaces options of the command."""
    quiet: Collection[str] = ()
    """Options of its own that change neither time nor memory, or that say where servers are."""


Command = tuple[list[str], list[str]]
"""What stands before and behind the engine's program."""
_WRITTEN = re.compile(
    r"""^[ \t]*cat[ \t]*>[ \t]*(?P<to>\S+)[ \t]*<<-?[ \t]*["']?(?P<end>\w+)["']?[^\n]*\n"""
    r"""(?P<text>.*?)\n[ \t]*(?P=end)[ \t]*$""",
    re.MULTILINE | re.DOTALL,
)
"""A file that a script writes itself: ``cat > FILE <<END``."""


def servers_of(found: Source, dialect: Dialect) -> tuple[list[Options], list[str]]:
    """Return the options of every server that a text starts, and a sentence for each file that could not be read."""
    servers = [_options(before, behind, dialect) for before, behind in commands(found, dialect)]
    files = {Path(match["to"].strip("\"'")).name: match["text"] for match in _WRITTEN.finditer(_text(found))}
    unread = [sentence for one in servers for sentence in _add_files(one, found, files, dialect)]
    return _distinct([one for one in servers if not dialect.later_node(one)] or servers[:1]), unread


def commands(found: Source, dialect: Dialect) -> list[Command]:
    """Return the commands of a text that start a server of the engine."""
    words_of_all = commands_of(_WRITTEN.sub("", _text(found)))
    return [parts for words in words_of_all if (parts := _parted(words, dialect)) is not None]


def _text(found: Source) -> str:
    """The text, with that of the script that it runs."""
    if found.words[:1] != ("bash",) or len(found.words) == 1:
        return found.text
    script = found.folder / found.words[1]
    return f"{found.text}\n{read_text(script)}" if script.is_file() else found.text


def _parted(words: Sequence[str], dialect: Dialect) -> Command | None:
    """The words before and behind the engine's program or its container; None where a command starts something else."""
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        for program in dialect.programs:
            if [name, *words[at + 1 : at + len(program)]] == list(program):
                return list(words[:at]), list(words[at + len(program) :])
    image = re.compile(rf"(^|/){dialect.image}([:@]|$)")
    if not dialect.image or words[0] not in ("docker", "podman"):
        return None
    return next(((list(words[:at]), list(words[at + 1 :])) for at, w in enumerate(words) if image.search(w)), None)


def _options(before: Sequence[str], behind: Sequence[str], dialect: Dialect) -> Options:
    """The options of one command, with those that stand before it as variables of its environment."""
    options = Options(behind, aliases=dialect.aliases, flags=dialect.flags, units=True)
    for name, equals, value in (word.partition("=") for word in before):
        if equals and name in dialect.variables:
            options.add({dialect.variables[name]: value})
    return options


def _add_files(options: Options, found: Source, files: Mapping[str, str], dialect: Dialect) -> Iterator[str]:
    """Add the settings of the files that a command names; yield a sentence for each that cannot be read."""
    for option in dialect.files:
        name = options.text(option)
        if not name:
            continue
        path = found.folder / name
        text = files.get(Path(name).name) or (read_text(path) if path.is_file() else "")
        settings = _settings(text, name) if text else None
        if settings is None:
            yield f"there is no file {name} next to the command, so what it says is left out"
        else:
            options.add(settings, replace=dialect.files_win)


def _settings(text: str, name: str) -> Mapping[str, object]:
    try:
        found = parse(text)
    except InputError as error:
        raise InputError([f"{name}: {problem}" for problem in error.problems]) from None
    if not isinstance(found, Mapping):
        raise InputError(f"{name} holds no mapping of settings")
    return found


def _distinct(servers: Sequence[Options]) -> list[Options]:
    """Servers by their ports: commands with the same one start one server on several nodes."""
    ports = {
        (*one.words("port"), str(number))[0]: one for number, one in reversed([*enumerate(servers, -len(servers))])
    }
    return list(reversed(ports.values()))


BATCH, PROMPT, OUTPUT = 16, 1024, 128
"""Sequences in flight on each rank, and tokens of each: assumed, for a server's command says neither."""
ACCEPTANCE = 0.7
"""Share of drafted tokens that are accepted: assumed, for the same reason."""
HARMLESS = frozenset(
    {
        *("host", "port", "api-key", "served-model-name", "trust-remote-code", "download-dir", "seed", "revision"),
        *("tokenizer", "tokenizer-mode", "tokenizer-path", "disable-log-stats", "disable-log-requests"),
        *("enable-log-requests", "log-level", "uvicorn-log-level", "chat-template", "nnodes", "node-rank"),
    }
)
"""Options that change no time and no memory."""


def of(dialect: Dialect) -> tuple[Callable[[Source], bool], Callable[[Source], Reading]]:
    """Return what an engine's module reads back by: `starts` and `read` in its dialect."""
    return partial(starts, dialect=dialect), partial(read, dialect=dialect)


def starts(found: Source, dialect: Dialect) -> bool:
    """Return whether what was given starts a server of the engine."""
    return found.kind == "command" and bool(commands(found, dialect))


def read(found: Source, dialect: Dialect) -> Reading:
    """Return the scenario that the servers of a command or script make up.

    Raises:
        InputError: Options contradict each other, or have values that the engine does not take.
    """
    servers, unread = servers_of(found, dialect)
    written = _one_model(servers, dialect)
    known = model_of(dialect.called(written))
    plans: dict[str, list[Mapping[str, Any]]] = {}
    for one in servers:
        plans.setdefault(dialect.role(one), []).append(dialect.plan(one, known))
        one.refuse()
    plan, devices = _plan(plans)
    most = [one.number(dialect.longest, least=-1) for one in servers if dialect.longest]
    workload = _workload(plan, plans, most[0] if most else None)
    scenario = {"model": known or written, "workload": workload, "plan": {"framework": dialect.engine, **plan}}
    missing = {} if written else {"model": "the model; the command names none"}
    counted = f", such as {devices}x h100-sxm-80gb; the command takes {devices}"
    missing["cluster"] = f"the devices{'' if any(one.unknown for one in servers) else counted}"
    return Reading(
        framework=dialect.engine,
        scenario={key: value for key, value in scenario.items() if value},
        missing=missing,
        assumed=_assumed(workload, plan),
        without_counterpart=[*_notes(servers, plans, dialect), *dict.fromkeys(unread)],
    )


def _one_model(servers: Sequence[Options], dialect: Dialect) -> str:
    """The model that all servers have, as it is written."""
    named: dict[str, None] = {}
    for one in servers:
        texts = [one.text(option) for option in dialect.models]
        plain = one.plain[:1] if dialect.positional else []
        named |= dict.fromkeys(filter(None, [*texts, *plain]))
    if len(named) > 1:
        raise InputError(f"the commands name several models, {' and '.join(named)}; a scenario has one")
    found = next(iter(named), "")
    return "" if "$" in found else found


def _plan(plans: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[dict[str, Any], int]:
    """The plan of all servers, and the devices that they take."""
    devices = sum(_size(first) * len(same) for same in plans.values() for first in same[:1])
    if set(plans) != {"prefill", "decode"}:
        (same,) = list(plans.values())[:1]
        return {**same[0], "replicas": len(same)}, devices
    pools: dict[str, dict[str, Any]] = {}
    for role in ("prefill", "decode"):
        first, servers = plans[role][0], len(plans[role])
        pools[role] = {key: first[key] for key in DEGREES if key in first}
        pools[role] |= {"replicas": servers} if servers > 1 else {}
    pools["prefill"]["batch"] = plans["prefill"][0].get("max_sequences", 1)
    shared = {key: value for key, value in plans["decode"][0].items() if key not in DEGREES}
    return {**shared, "disaggregate": pools}, devices


def _size(plan: Mapping[str, Any]) -> int:
    """Devices of one server."""
    return int(plan.get("tensor_parallel", 1) * plan.get("pipeline_parallel", 1) * plan.get("data_parallel", 1))


def _workload(
    plan: Mapping[str, Any], plans: Mapping[str, Sequence[Mapping[str, Any]]], most: int | None
) -> dict[str, Any]:
    """What is assumed of the requests."""
    answering = plans.get("decode") or next(iter(plans.values()))
    ranks = answering[0].get("data_parallel", 1) * len(answering)
    batch = min(BATCH, plan.get("max_sequences", BATCH)) * ranks
    prompt, output = PROMPT, OUTPUT
    if most is not None and 1 < most < prompt + output:
        prompt = max(1, most * PROMPT // (PROMPT + OUTPUT))
        output = max(1, most - prompt)
    return {"task": "generate", "batch": batch, "prompt_tokens": prompt, "output_tokens": output}


def _assumed(workload: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Values that no command says, by dotted key."""
    requests = {f"workload.{key}": value for key, value in workload.items() if key != "task"}
    drafts = {"plan.speculative.acceptance": ACCEPTANCE} if "speculative" in plan else {}
    return requests | drafts


def _notes(
    servers: Sequence[Options], plans: Mapping[str, Sequence[Mapping[str, Any]]], dialect: Dialect
) -> Iterator[str]:
    """What no key stands for."""
    for role, same in plans.items():
        if any(one != same[0] for one in same):
            yield f"the {role + ' ' if role else ''}servers differ; all of them are read as the first"
    if len(plans) == 1 and (role := next(iter(plans))):
        yield f"the command starts servers for {role} alone; they are read as doing both"
    tiered = [dialect.tiers(one) for one in servers]
    if any(tiered):
        yield "plan.kv_tiers is left out: no command says the bandwidth of memories behind the device's"
    quiet = {*HARMLESS, *dialect.quiet, *dialect.models}
    unread = [_dashed(name) for one in servers for name in one.unread() if name.removeprefix("no-") not in quiet]
    known = {_dashed(name) for one in servers for name in (*one.read_names(), *dialect.flags)}
    yield from not_read(unread, known)
    yield from dict.fromkeys(sentence for one in servers for sentence in one.unknown.values())


def _dashed(name: str) -> str:
    return f"--{name}" if len(name) > 1 else f"-{name}"
