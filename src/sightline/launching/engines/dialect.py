"""Start the servers of an engine, and read such commands back as the scenario that its servers make up."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from sightline.catalog.yaml12 import parse
from sightline.errors import InputError, prefixed, refuse
from sightline.launching.engines.commands import Stated, commands, whole_text, written_files
from sightline.launching.engines.requests import (
    DTYPES,
    READ_DTYPES,
    Request,
    checkpoint_of,
    in_format,
    model_argument,
    quantization,
    requests_of,
)
from sightline.launching.engines.rules import CACHES, refusals, without_option
from sightline.launching.engines.servers import LOCAL, ROUTER, Arguments, Command, Server, launch, router_in
from sightline.launching.hugging_face import model_of
from sightline.launching.launch import Launch, Reading
from sightline.launching.options import Options, dashed
from sightline.launching.readers import reader, with_unread
from sightline.launching.source import Source
from sightline.launching.table import Option, nested, plan_read, written
from sightline.loading.sources import read_text
from sightline.quantities import counted
from sightline.scenario import GenerationScenario
from sightline.scenario.generation import DEGREES

BATCH, PROMPT, OUTPUT = 16, 1024, 128
"""Sequences in flight on each rank, and tokens of each: assumed, for a server's command says neither."""
ACCEPTANCE = 0.7
"""Share of drafted tokens that are accepted: assumed, for the same reason."""
CHANGED_MODEL = ("hf-overrides", "json-model-override-args")
"""Options with keys of a model's configuration."""
PENALTIES: Mapping[str, float] = {"presence": 0.0, "frequency": 0.0, "repetition": 1.0}
"""Kinds of penalties, each with the value that has no effect."""
Row: TypeAlias = Option[Request, Options]
"""An option of an engine's server."""


def command_options(table: Sequence[Row], request: Request) -> Arguments:
    """Return the options of a command; those of a table that are keys of a file have no dashes."""
    return {name: value for name, value in written(table, request).items() if name.startswith("-")}


def file_settings(table: Sequence[Row], request: Request) -> dict[str, Any]:
    """Return the settings of a file, which are the options of a table without dashes."""
    return nested({name: value for name, value in written(table, request).items() if not name.startswith("-")})


def named(name: str) -> str:
    """Return an option's name as `Options` has it."""
    return name.lstrip("-").replace("_", "-")


def degree(name: str, field: str, read: Callable[[Options], int | None] | None = None, *, always: bool = False) -> Row:
    """Return the option of a degree, which is written above 1, or ``always`` and then read as 1 where it is absent."""

    def write(request: Request) -> object:
        value = getattr(request.plan, field)
        return value if always or value > 1 else None

    return Option(name, field, write, read or (lambda of: of.number(named(name)) or (1 if always else None)))


def number(name: str, field: str, write: Callable[[Request], object] | None = None) -> Row:
    """Return the option of a count, by default the field as it is."""
    return Option(name, field, write or attrgetter(f"plan.{field}"), lambda of: of.number(of.named(name)))


def cache_tokens(name: str, block: str, usual: int) -> Row:
    """Return the option of the cache's tokens, whole blocks of as many as another option says, or as is usual."""

    def write(request: Request) -> int | None:
        blocks = request.plan.kv_cache_blocks
        return None if blocks is None else int(blocks * request.plan.kv_block_tokens)

    def read(options: Options) -> int | None:
        tokens = options.number(named(name))
        return tokens and max(1, tokens // (options.number(named(block)) or usual))

    return Option(name, "kv_cache_blocks", write, read)


def memory_share(name: str) -> Row:
    """Return the option of the share of the device's memory that the engine takes."""
    return Option(name, "memory_fraction", lambda r: r.plan.memory_fraction, lambda options: options.share(named(name)))


def switch(name: str, field: str) -> Row:
    """Return the option of a switch that is written whether it is on or off."""
    return Option(name, field, attrgetter(f"plan.{field}"), lambda options: options.flag(named(name)))


def switch_on(name: str, field: str) -> Row:
    """Return the option of a switch that is written where it is on."""
    return Option(name, field, lambda r: getattr(r.plan, field) or None, lambda options: options.flag(named(name)))


def off(name: str) -> Callable[[Options], bool | None]:
    """Return what reads a switch that is on as false."""
    return lambda options: False if options.flag(named(name)) else None


def without(name: str, field: str) -> Row:
    """Return the option that switches off what the engine does by default."""
    return Option(name, field, lambda request: None if getattr(request.plan, field) else True, off(name))


def compute_dtype(name: str) -> Row:
    """Return the option of the dtype that PyTorch computes in."""
    return Option(
        name,
        "dtype",
        lambda request: DTYPES.get(request.plan.dtype),
        lambda options: options.word(named(name), READ_DTYPES) or None,
    )


def formats(
    weights: str,
    read_weights: Mapping[str, str],
    cache: str = "",
    engine: str = "",
    read_caches: Mapping[str, str] = {},
) -> tuple[Row, ...]:
    """Return the options of number formats, of weights and where there is one of the cache.

    Args:
        weights: Option with the format that weights are converted to, or have.
        read_weights: Our words by the engine's; empty where the checkpoint says the format.
        cache: Option with the format of the cache.
        engine: Whose caches are written.
        read_caches: Our words by further ones of the engine.
    """
    caches = CACHES.get(engine, {})
    ours = {theirs: word for word, theirs in caches.items()} | dict(read_caches)

    def read(options: Options) -> list[str] | None:
        kept = options.word(named(cache), ours) if cache else ""
        return quantization(options.word(named(weights), read_weights) or options.format, kept, options.model) or None

    rows: tuple[Row, ...] = (Option(weights, "quantization", lambda request: request.formats.weights or None, read),)
    return (*rows, Option(cache, write=lambda request: caches.get(request.formats.cache))) if cache else rows


def sampling(name: str) -> Row:
    """Return the option with how a server draws tokens where requests do not say it."""

    def write(request: Request) -> str | None:
        stated = request.scenario.workload.sampling
        return None if stated is None else json.dumps(stated.fields)

    return Option(name, write=write)


def drafts(
    name: str,
    write: Callable[[Request], object],
    read: Callable[[Options], int | None],
    most: Callable[[Options], int | None] = lambda _: None,
) -> Row:
    """Return the option of drafted tokens of up to so many sequences; no command says how many are accepted."""

    def speculative(options: Options) -> Mapping[str, object] | None:
        tokens, limit = read(options), {"disable_above": up_to} if (up_to := most(options)) else {}
        return {"tokens": tokens, "acceptance": ACCEPTANCE, **limit} if tokens else None

    return Option(name, "speculative", write, speculative)


EVENTS_PORT = 20080
"""Of the first server, for what it keeps in its cache."""


def publishing(request: Request, server: Server, **further: object) -> dict[str, object]:
    """Return what lets Dynamo's router know the blocks of a server."""
    if not request.publishes:
        return {}
    there = {"publisher": "zmq", "topic": "kv-events", "endpoint": f"tcp://*:{EVENTS_PORT + server.number}"}
    return {"--kv-events-config": json.dumps({**there, **further})}


def reachable(_request: Request, _server: Server, _rank: int, address: str) -> Arguments:
    """Return what lets other nodes reach a server."""
    return {} if address == LOCAL else {"--host": "0.0.0.0"}  # noqa: S104


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """How an engine's servers are started, and such commands read back: what each engine's module says of its own."""

    engine: str
    """As ``plan.framework`` names it."""
    options: Sequence[Row]
    """Of the server: each says how it is written and how it is read."""
    programs: Sequence[Sequence[str]]
    """Words that begin its command, the first without its folder."""
    image: str
    """What its containers are called."""
    words: Callable[[Request, str], Sequence[str]]
    """The program with the model, which has this name."""
    port: int
    """The first server's."""
    router: Callable[[Sequence[tuple[Server, str]], str], str] | None = None
    """What shares requests among servers, given each with its address, by a policy; None where it has nothing."""
    router_package: str = ""
    """What has to be installed for that."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """The engine's words for formats that it converts 16-bit weights to while it loads them."""
    model: Callable[[GenerationScenario], tuple[str, Sequence[str]]] = field(default=model_argument)
    """What a command calls the model, and what to say about that."""
    says_formats: bool = True
    """Whether the user hears of formats that weights have to be published in."""
    notes: Callable[[Sequence[Request]], Iterable[str]] = field(default=lambda _: ())
    """What of a plan no option says, and what the user has to know."""
    of_node: Callable[[Request, Server, int, str], Arguments] = field(default=lambda *_: {})
    """Further options of a server on one of its nodes: the node's rank in it, and the address of its first one."""
    environment: Callable[[Request, Server, str], Mapping[str, object]] = field(default=lambda *_: {})
    """Further variables of a server, which has an address."""
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
    sampling: str = ""
    """Option with a JSON object of how tokens are drawn."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Options by the variables of the environment that stand for them."""
    prefix: str = ""
    """How the engine's own variables begin."""
    prefix_of_options: str | None = None
    """How variables begin that are called after options."""
    files: Sequence[str] = ()
    """Options that name a YAML file with further ones."""
    files_win: bool = False
    """Whether what such a file says replaces options of the command."""

    def claims(self, found: Source) -> bool:
        """Whether what was given starts a server of the engine."""
        return found.kind == "command" and bool(commands(found, self))

    def read(self, found: Source) -> Reading:
        """Return the scenario that the servers of a command or script make up.

        Raises:
            InputError: Options contradict each other, or have values that the engine does not take.
        """
        return read_servers(found, self)

    def of_variables(self, values: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return options by what variables of the environment hold; variables without an option keep their name."""
        lists, begin = reader(self.engine), self.prefix_of_options
        listed = {
            *lists.reasons,
            *lists.effects,
            *lists.refused,
            *self.models,
            *(named(option.name) for option in self.options),
        }
        found: dict[str, str] = {}
        for name, words in values.items():
            option = self.variables.get(name, "")
            if not option and begin is not None and name.startswith(begin):
                option = name.removeprefix(begin).lower().replace("_", "-")
                option = option if begin or option in listed else ""
            if not option and self.prefix and name.startswith(self.prefix):
                option = name
            if option and len(words) == 1:
                found[option] = words[0]
        return found

    def plan(self, options: Options) -> Mapping[str, Any]:
        """Return the keys of ``plan`` that a server's options say."""
        for name in (named(option.name) for option in self.options if not option.field):
            if name not in reader(self.engine).refused:
                options.has(self.aliases.get(name, name))
        for name in CHANGED_MODEL:
            options.mapping(name)
        return plan_read(self.options, options)

    def write(self, scenario: GenerationScenario, files: Mapping[str, str] | None = None) -> Launch:
        """Return the command of a server, or the script of several; ``files`` are texts that the commands name.

        Raises:
            InputError: The plan has something that the engine cannot launch; a sentence each.
        """
        requests = requests_of(scenario, self.weights)
        refuse(refusals(scenario))
        repository, unknown = self.model(scenario)
        model, called = in_format(repository, requests[0].formats) if self.says_formats else (repository, ())
        written_commands = {
            request.role: Command(
                words=self.words(request, model),
                arguments=command_options(self.options, request),
                of_node=partial(self.of_node, request),
                environment=partial(self.environment, request),
                takes_port=not request.publishes,
            )
            for request in requests
        }
        return launch(
            scenario,
            written_commands,
            port=self.port,
            router=self.router,
            router_package=self.router_package,
            files=files,
            notes=[*unknown, *called, *(requests[0].formats.notes if self.says_formats else ()), *self.notes(requests)]
            + [sentence for sentence, _ in without_option(scenario)],
        )


def servers_of(found: Source, dialect: Dialect) -> tuple[list[Options], list[str], list[str]]:
    """Return the options of every server that a text starts, what was left out, and files that could not be read."""
    stated = commands(found, dialect)
    servers = [_options(one.variables, one.words, dialect) for one in stated]
    files = written_files(whole_text(found))
    lost = [name for one in servers for name in _add_files(one, found, files, dialect)]
    return *_distinct(servers, stated, dialect), lost


def _options(stated: Mapping[str, str], behind: Sequence[str], dialect: Dialect) -> Options:
    """The options of one command, and those that variables of its environment say where it does not."""
    options = Options(behind, aliases=dialect.aliases, flags=dialect.flags, units=True)
    options.add({name: value for name, value in stated.items() if options.named(name) not in options.names()})
    return options


def _add_files(options: Options, found: Source, files: Mapping[str, str], dialect: Dialect) -> Iterator[str]:
    """Add the settings of the files that a command names; yield the names of those that cannot be read."""
    for option in dialect.files:
        name = options.text(option)
        if not name:
            continue
        path = found.folder / name
        text = files.get(Path(name).name) or (read_text(path) if path.is_file() else "")
        settings = _settings(text, name) if text else None
        if settings is None:
            yield name
        else:
            options.add(settings, replace=dialect.files_win)


def _settings(text: str, name: str) -> Mapping[str, object] | None:
    try:
        with prefixed(f"{name}: "):
            found = parse(text)
    except InputError:
        if "$" in text:
            return None
        raise
    if not isinstance(found, Mapping):
        raise InputError(f"{name} holds no mapping of settings")
    return found


def _distinct(
    servers: Sequence[Options], stated: Sequence[Stated], dialect: Dialect
) -> tuple[list[Options], list[str]]:
    """The servers that run together, and sentences on commands that are left out."""
    pairs = list(zip(servers, stated, strict=True))
    kept: dict[Any, tuple[Options, Stated]] = {}
    left_out = 0
    for options, one in [pair for pair in pairs if not dialect.later_node(pair[0])] or pairs[:1]:
        role = dialect.role(options)
        # Workers of dynamo take no port of their own.
        port = options.raw("port") or [str(len(kept)) * any(word.startswith("dynamo.") for word in one.machine)]
        key = (role, *one.machine, *port)
        rivals = (s for k, (_, s) in kept.items() if k == key or (k[0] == role and s.place.excludes(one.place)))
        first = next(rivals, None)
        left_out += first is not None and first.words != one.words
        if first is None:
            kept[key] = (options, one)
    said = f"{counted(left_out, 'further command')} for the place of a server that is read, as in a branch, left out"
    found = [options for options, _ in kept.values()]
    if any(one.place.is_repeated for _, one in kept.values()):
        looped = "the script starts servers in a loop or a function; only running it would tell how many"
        found[0].missing["plan.replicas"] = found[0].unknown["plan.replicas"] = looped
    return found, [said] * bool(left_out)


def read_servers(found: Source, dialect: Dialect) -> Reading:
    """Return the scenario that the servers of a command or script make up.

    Raises:
        InputError: Options contradict each other, or have values that the engine does not take.
    """
    servers, left_out, lost = servers_of(found, dialect)
    written = _one_model(servers, dialect)
    repository, form = checkpoint_of(dialect.called(written))
    known = model_of(repository)
    plans: dict[str, list[Mapping[str, Any]]] = {}
    for one in servers:
        one.model, one.format = known, form if known else ""
        plans.setdefault(dialect.role(one), []).append(dialect.plan(one))
        one.refuse()
    plan, devices = _plan(plans)
    beside = found.folder / ROUTER if found.words[:1] == ("bash",) else Path()
    router = router_in(f"{whole_text(found)}\n{read_text(beside) if beside.is_file() else ''}")
    plan |= {"router": router} if router else {}
    most = [one.number(dialect.longest, least=-1) for one in servers if dialect.longest]
    workload = _workload(plan, plans, most[0] if most else None)
    if any("plan.replicas" in one.missing for one in servers):
        plan.pop("replicas", None)
    whole_workload = workload | _sampling(servers, dialect)
    scenario = {"model": known or written, "workload": whole_workload, "plan": {"framework": dialect.engine, **plan}}
    missing = {} if written else {"model": "the model; the command names none"}
    counted = f", such as {devices}x h100-sxm-80gb; the command takes {devices}"
    missing |= {key: sentence for one in servers for key, sentence in one.missing.items()}
    missing["cluster"] = f"the devices{'' if any(one.unknown for one in servers) else counted}"
    unread = {name: value for one in servers for name, value in one.unread(dialect.models).items()}
    names = {dashed(name) for one in servers for name in (*one.read_names(), *dialect.flags)}
    alone = [f"servers for {role} alone" for role in plans if role and len(plans) == 1]
    reading = Reading(
        framework=dialect.engine,
        scenario={key: value for key, value in scenario.items() if value},
        missing=missing,
        assumed=_assumed(workload, plan),
        unread=[*dict.fromkeys(lost), *alone],
        without_counterpart=[
            *(f"the command starts {each}; they are read as doing both" for each in alone),
            *_notes(servers, plans, dialect),
            *_unset(servers, dialect.engine),
            *left_out,
            *(f"there is no file {name} that can be read next to the command; it is left out" for name in {*lost}),
        ],
    )
    return with_unread(reading, dialect.engine, unread, names)


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


def _sampling(servers: Sequence[Options], dialect: Dialect) -> dict[str, Any]:
    """How tokens are drawn where a server says it; penalties count where one has an effect."""
    found = (one.mapping(dialect.sampling) for one in servers if dialect.sampling)
    stated: Mapping[str, Any] = next(filter(None, found), {})
    own = {key: stated[key] for key in ("temperature", "top_p", "top_k") if key in stated and stated[key] != -1}
    if any(stated.get(f"{kind}_penalty", usual) != usual for kind, usual in PENALTIES.items()):
        own["penalties"] = True
    return {"sampling": own} if own else {}


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
    if len(plans) > 1 and set(plans) != {"prefill", "decode"}:
        first, *others = (role or "both" for role in plans)
        yield f"the servers for {' and '.join(others)} are left out; those for {first} are read as doing both"
    tiered = [dialect.tiers(one) for one in servers]
    if any(tiered):
        yield "plan.kv_tiers is left out: no command says the bandwidth of memories behind the device's"


def _unset(servers: Sequence[Options], engine: str) -> list[str]:
    """What only running the script would tell, of options that matter and are no keys of their own."""
    lists = reader(engine)
    said = dict.fromkeys(said for one in servers for name, said in one.unknown.items() if lists.matters({name: ""}))
    return [sentence for sentence in said if not any(sentence in one.missing.values() for one in servers)]
