"""Questions without a file: a command's options as the scenario that they stand for, or as settings of a file."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sightline import catalog
from sightline.errors import InputError, refuse
from sightline.loading.checks import stated_at, with_value
from sightline.loading.foreign import of_file, read_known
from sightline.loading.loader import read_overrides
from sightline.loading.serving import implied_process
from sightline.loading.sources import Document, Source, question_of, value_of
from sightline.quantities import RATE, parse_quantity, show
from sightline.validators import tokens


def _keys(pairs: str) -> Mapping[str, str]:
    """Keys of a workload by option."""
    return {option: f"workload.{key}" for option, _, key in (pair.partition("=") for pair in pairs.split())}


_EVERY: Final = {"model": "model", "cluster": "cluster", "framework": "plan.framework"}
_TRAINED: Final = _keys("tokens=total_tokens samples=samples epochs=epochs sequence=sequence_length batch=global_batch")
_GENERATED: Final = _keys("batch=batch prompt=prompt_tokens output=output_tokens")
_SERVED: Final = _keys(
    "prompt=requests.prompt_tokens output=requests.output_tokens slo=slo rate=arrival.rate "
    "concurrency=arrival.concurrency"
)
KEYS: Final = {"pretrain": _TRAINED, "finetune": _TRAINED, "generate": _GENERATED, "serve": _SERVED}
"""By task, the keys that options stand for next to those of every task."""
USUAL_LENGTH: Final = 4096
_USUAL: Final = {"batch": 1, "prompt": 1024, "output": 256}
"""By option, of generation and serving."""
USUAL_REQUESTS: Final = 1000
"""Requests of a load of which only the rate is known."""
_USUAL_DEVICES, _DEVICE_TOKENS, _MOST_TOKENS = 8, 2**16, 2**24
"""Tokens of a training step for each device, up to those of the largest published runs."""
_TIMES: Final = re.compile(r"(\d+(?:\.\d+)?)x")
_LIMIT: Final = re.compile(r"(\w+)\s*(?:<=|[<=:]|\s)\s*(\S.*)")


def question(options: Mapping[str, str], overrides: Iterable[str] = (), task: str = "") -> Source:
    """Return the scenario that options ask for; what they and ``overrides`` leave out takes usual values.

    Args:
        options: Values as typed, by option.
        overrides: ``key=value`` texts that are set on top.
        task: Of a command that has one; else it follows from the options.

    Raises:
        InputError: An option does not apply to the task.
    """
    stated_above = read_overrides(list(overrides))
    asked = stated_at(_with({}, stated_above), "workload.task") or task
    if _TIMES.fullmatch(options.get("rate", "")):
        _stated_rate(options["rate"], [{}])
    stated = asked or inferred(options)
    settings = {key: value_of(key, text) for key, text in _settings(options, [stated])}
    mapping = _with({"workload": {"task": stated}}, settings)
    whole = _with(mapping, stated_above)
    assumed: dict[str, Any] = {} if asked else {"workload.task": stated}
    assumed |= {key: value for key, value in _usual(whole, stated) if stated_at(whole, key) is None}
    greedy = ["workload.sampling greedy"] if stated == "serve" and stated_at(whole, "workload.sampling") is None else []
    listed = ", ".join([*(f"{key} {value}" for key, value in assumed.items()), *greedy])
    words = tuple(word for name, value in options.items() for word in (f"--{name}", value))
    remarks = (f"assumed: {listed}",) if listed else ()
    documents = (Document(mapping=_with(mapping, assumed)),)
    return Source(documents=documents, single=True, folder=Path(), words=words, remarks=remarks)


def over_files(files: Sequence[object], options: Mapping[str, str]) -> tuple[list[Source], list[str]]:
    """Return sources read, and options as settings of them: what they mean follows from the files' task.

    Raises:
        InputError: A file cannot be read, or an option does not apply to its task.
    """
    sources = [replace(read_known(file), words=() if file == "-" else (str(file),)) for file in files]
    mappings = [question_of(document.mapping) for source in sources for document in source.documents]
    tasks = dict.fromkeys(str(stated_at(mapping, "workload.task") or "pretrain") for mapping in mappings)
    if times := _TIMES.fullmatch(options.get("rate", "")):
        options = {**options, "rate": f"{float(times[1]) * _stated_rate(options['rate'], mappings):g}"}
    settings = dict(_settings(options, list(tasks)))
    sent = {name: settings[_SERVED[name]] for name in ("rate", "concurrency") if _SERVED[name] in settings}
    process = "poisson" if "rate" in sent else "closed"
    if sent and not all(_has_rate(each) or (process == "closed" and _process(each) == process) for each in mappings):
        settings = {key: value for key, value in settings.items() if not key.startswith("workload.arrival.")}
        settings["workload.arrival"] = f"{{{', '.join(f'{k}: {v}' for k, v in {'process': process, **sent}.items())}}}"
    return sources, [f"{key}={value}" for key, value in settings.items()]


def _stated_rate(typed: str, mappings: Sequence[Any]) -> float:
    """The only rate that mappings state, of which others are ``typed`` as a multiple."""
    rates = {stated_at(mapping, "workload.arrival.rate") for mapping in mappings}
    if None in rates or len(rates) != 1:
        rate = "not stated" if None in rates else " and ".join(sorted(map(str, rates)))
        raise InputError(
            f"--rate is '{typed}', a multiple of workload.arrival.rate, which is {rate}; allowed: requests per second, "
            "such as 8"
        )
    return parse_quantity(rates.pop(), RATE)


def inferred(options: Mapping[str, str]) -> str:
    """Return the task that options are of: serving with a load or an SLO, generation with lengths or an engine."""
    if {"rate", "concurrency", "slo"} & options.keys():
        return "serve"
    framework = options.get("framework")
    is_engine = framework in catalog.names("engines") and framework not in catalog.names("frameworks")
    return "generate" if {"prompt", "output"} & options.keys() or is_engine else "pretrain"


def _has_rate(mapping: Any) -> bool:
    """Whether requests of a load arrive by a process that has a rate."""
    return _process(mapping) in ("poisson", "gamma", "constant", "trace")


def _process(mapping: Any) -> Any:
    """The process by which requests of a load arrive."""
    arrival = stated_at(mapping, "workload.arrival")
    usual = "trace" if stated_at(mapping, "workload.trace") else implied_process(arrival or {})
    return stated_at(mapping, "workload.arrival.process") or usual


def _settings(options: Mapping[str, str], tasks: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option's key and text; raise `InputError` with those that do not apply to all of the tasks."""
    problems: list[str] = []
    for name, text in options.items():
        keys = {_EVERY.get(name) or KEYS.get(task, {}).get(name) for task in tasks}
        key = keys.pop() if len(keys) == 1 else None
        if key is None:
            known = [task for task in KEYS if name in KEYS[task]]
            problems.append(f"--{name} applies to {', '.join(known)}; workload.task is {', '.join(tasks)}")
        elif name == "slo":
            yield key, _limits(text, problems)
        else:
            # A path on the command line is not relative to the scenario's file.
            is_path = name == "model" and os.path.exists(text)  # noqa: PTH110 - of a text too long it says no
            problems += [said] if is_path and (said := of_file(Path(text), "a model")) else []
            yield key, str(Path(text).absolute()) if is_path else text
    refuse(problems)


def _limits(text: str, problems: list[str]) -> str:
    """The mapping of an SLO that is typed as ttft<=500ms,tpot<=50ms; mistakes are noted."""
    found = [_LIMIT.fullmatch(part.strip().strip("{}")) for part in text.split(",")]
    if not all(found):
        problems.append(f"--slo is {show(text)}; allowed: limits such as 'ttft<=1s,tpot<=50ms'")
    return f"{{{', '.join(f'{limit[1]}: {limit[2]}' for limit in found if limit)}}}"


def _usual(whole: Mapping[str, Any], task: str) -> Iterator[tuple[str, Any]]:
    """Keys that a question may leave out, with their values."""
    if task in ("pretrain", "finetune"):
        length = stated_at(whole, _TRAINED["sequence"]) or _usual_length(whole.get("model"))
        yield _TRAINED["sequence"], length
        yield _TRAINED["batch"], _usual_batch(whole.get("cluster"), length)
    elif stated_at(whole, "workload.trace") is None:
        yield from ((KEYS[task][name], value) for name, value in _USUAL.items() if name in KEYS.get(task, ()))
        if task == "serve":
            yield "workload.requests.count", USUAL_REQUESTS
    for name, process in (("rate", "poisson"), ("concurrency", "closed")):
        if stated_at(whole, _SERVED[name]) is not None:
            yield "workload.arrival.process", process
            return


def _usual_length(model: Any) -> int:
    from sightline.loading.models import resolve_model

    with suppress(InputError):
        # A model that is missing is refused with the scenario.
        return USUAL_LENGTH if model is None else min(USUAL_LENGTH, resolve_model(model, Path()).model.max_positions)
    return USUAL_LENGTH


def _usual_batch(cluster: Any, length: Any) -> int:
    """A batch that every number of replicas divides."""
    from sightline.loading.clusters import read_cluster

    devices = _USUAL_DEVICES
    with suppress(InputError):  # which the loader words
        length = tokens()(length)
        devices = read_cluster(cluster).devices if cluster else devices
    per_device = min(_DEVICE_TOKENS, _MOST_TOKENS // devices)
    return int(devices * max(1, per_device // length if isinstance(length, int) else 1))


def _with(mapping: Mapping[str, Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    for key, value in values.items():
        mapping = with_value(mapping, key, value)
    return mapping
