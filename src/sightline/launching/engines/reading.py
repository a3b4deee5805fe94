"""Commands of serving engines read back: the scenario that their servers make up."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sightline.errors import InputError
from sightline.launching.engines.commands import commands, servers_of
from sightline.launching.engines.dialect import Dialect
from sightline.launching.launch import Reading
from sightline.launching.options import Options, not_read
from sightline.launching.repositories import model_of
from sightline.launching.source import Source
from sightline.scenario.generation import DEGREES

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
