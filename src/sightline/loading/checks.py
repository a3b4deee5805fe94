"""Check a mapping against its structure: kinds of values, dotted keys, and every mistake as a sentence.

A kind refuses a value with half a sentence, such as "is 5; allowed: 0, 1, 2, 3"; `check` puts the key before it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, ParamSpec, TypeVar

from sightline.content import record
from sightline.errors import InputError, nearest, noted, refuse
from sightline.quantities import LARGEST, show
from sightline.validators import Keys, Kind, Needed, description_of, keys_of, length_of

_OTHERS: Mapping[str, str] = {
    "tensor_parallel": "tp tp_size",
    "pipeline_parallel": "pp pp_size",
    "data_parallel": "dp dp_size",
    "context_parallel": "cp cp_size",
    "expert_parallel": "ep ep_size",
    "expert_tensor_parallel": "etp",
    "sequence_parallel": "sp",
    "virtual_stages": "vpp vp",
    "micro_batch": "mbs",
    "global_batch": "gbs batch_size",
    "sequence_length": "seq_len seqlen seq_length max_seq_len",
    "prompt_tokens": "input_tokens isl",
    "output_tokens": "osl",
    "tpot": "itl inter_token_latency",
    "latency": "e2e e2el",
    "recompute": "activation_checkpointing gradient_checkpointing",
    "zero_stage": "zero",
    "vocab_size": "vocab vocabulary vocabulary_size",
    "per_node": "gpus_per_node",
    "cuda_graphs": "enforce_eager disable_cuda_graph",
    "max_sequences": "max_num_seqs max_running_requests",
    "max_batched_tokens": "max_num_batched_tokens chunked_prefill_size",
    "memory_fraction": "gpu_memory_utilization mem_fraction_static",
    "prefix_cache": "enable_prefix_caching",
    "kv_block_tokens": "block_size page_size",
    "kv_cache_blocks": "num_gpu_blocks num_gpu_blocks_override",
    "devices": "gpus nodes",
    "framework": "engine",
    "cost": "cheapest price",
    "finetune": "sft fine-tune finetuning",
    "pretrain": "train training",
    "serve": "serving",
    "generate": "infer inference",
}
_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(
        ("workload.users", "workload.concurrency", "workload.clients"),
        "workload.arrival: {process: closed, concurrency: N}",
    ),
    **dict.fromkeys(("workload.qps", "workload.request_rate"), "workload.arrival: {process: poisson, rate: N}"),
    "workload.sampling.min_p": "temperature, top_p and top_k alone: what min_p takes was never measured",
    **{
        f"plan.disaggregate.{pool}.attention_data_parallel": f"plan.disaggregate.{pool}.data_parallel, whose ranks "
        "share the experts"
        for pool in ("prefill", "decode")
    },
}
"""What to use instead of keys that others have, or that stand elsewhere."""
_DTYPES: Mapping[str, str] = {
    "fp32": "float32 float",
    "fp16": "float16 half",
    "bf16": "bfloat16",
    "fp8": "float8 e4m3",
    "nvfp4": "fp4",
}
_OURS: Mapping[str, str] = {
    other: ours for ours, others in {**_OTHERS, **_DTYPES}.items() for other in others.split()
} | {"precision": "dtype"}


def meant(word: object, known: list[str]) -> str:
    """Return `` - did you mean 'x'?`` for the known spelling that a word stands for or is nearest to, or nothing."""
    ours = _OURS.get(word.lower(), "") if isinstance(word, str) else ""
    return f" - did you mean '{ours}'?" if ours in known else nearest(word, known)


MOST_SCENARIOS = 100_000
"""Scenarios that one file's sweep may stand for."""

DEEPEST_KEY = 20
"""Parts of a dotted key; scenarios have up to four."""

_WORD = re.compile(r"[\w.-]{1,80}(\[\d{1,6}\])?")
_POINT = re.compile(r"\.(?!\d)")
"""What separates the parts of a key: no part begins with a digit, and ``ttft_s.p99.9`` has two."""

NAMED_PARTS = frozenset({"model", "cluster", "cluster.device", "cluster.intra_node", "cluster.network", "cluster.host"})
"""Keys that hold a catalog name or a mapping: setting a key below a name keeps the name as ``same_as``."""


def dotted(*parts: object) -> str:
    """Return a dotted key; a part that would not read as one word is quoted."""
    return ".".join(p if isinstance(p, str) and _WORD.fullmatch(p) else show(p) for p in parts if p != "")


def with_value(mapping: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return ``mapping`` with the dotted ``key`` set; everything off the path is shared, not copied."""
    path = _POINT.split(key)
    if not all(path) or len(path) > DEEPEST_KEY:
        raise InputError(f"{show(key)} is not a key; allowed: a dotted key such as plan.micro_batch")
    return _set(mapping, path, value, ())


def stated_at(mapping: Any, key: str) -> Any:
    """Return what a mapping has under a dotted key; None where it has nothing."""
    for part in key.split("."):
        mapping = mapping.get(part) if isinstance(mapping, Mapping) else None
    return mapping


def _set(mapping: Mapping[str, Any], path: list[str], value: Any, above: tuple[str, ...]) -> dict[str, Any]:
    head, below = path[0], path[1:]
    if not below:
        return {**mapping, head: value}
    here = ".".join((*above, head))
    inner = mapping.get(head)
    if isinstance(inner, str) and here in NAMED_PARTS:
        inner = {"same_as": inner}
    if inner is not None and not isinstance(inner, Mapping):
        whole, at = dotted(*above, *path), dotted(*above, head)
        raise InputError(f"{whole} cannot be set because {at} is {show(inner)}, not a mapping")
    return {**mapping, head: _set(inner or {}, below, value, (*above, head))}


def key_value(argument: object) -> tuple[str, str]:
    """Split ``key=value`` of ``--set`` and ``--sweep``."""
    key, equals, value = argument.partition("=") if isinstance(argument, str) else ("", "", "")
    if not equals or not key.strip():
        raise InputError(f"{show(argument)} is not KEY=VALUE, such as plan.micro_batch=2")
    return key.strip(), value.strip()


def check_sweep(sweep: object) -> dict[str, list[Any]]:
    """Return a ``sweep`` mapping when it is one of dotted keys, each with a list of values."""
    if not isinstance(sweep, Mapping):
        raise InputError(f"sweep is {show(sweep)}; allowed: a mapping from dotted keys to lists of values")
    wrong = {k: v for k, v in sweep.items() if not isinstance(k, str) or not isinstance(v, list) or not v}
    if wrong:
        raise InputError([f"{dotted('sweep', k)} is {show(v)}; allowed: a list of values" for k, v in wrong.items()])
    return dict(sweep)


def swept(
    mapping: Mapping[str, Any], sweep: Mapping[str, list[Any]]
) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the product of scenarios that ``sweep`` stands for, each after its values of the swept keys.

    The last key varies fastest.
    """
    count = prod(len(values) for values in sweep.values())
    if count > MOST_SCENARIOS:
        raise InputError(f"sweep has {show(count)} scenarios; allowed: up to {MOST_SCENARIOS}")
    for values in product(*sweep.values()):
        scenario, cell = dict(mapping), dict(zip(sweep, values, strict=True))
        for key, value in cell.items():
            scenario = with_value(scenario, key, value)
        yield cell, scenario


ANY, RANGE = frozenset({"any"}), frozenset({"from", "to", "factor"})
"""Keys of a restriction."""
_COUNTED = ("plan.", "workload.")
"""Where a range between whole numbers is one of whole numbers."""
_SEARCHED = re.compile(r"[\w.]+ is '(?:any|auto|all|free|search)';")
MOST_VALUES = 10_000
"""Values that a range may stand for."""


def split_restrictions(mapping: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return a mapping without its restricted keys, and by dotted key the values that each of those may take.

    Raises:
        InputError: a restriction that is no list or no range.
    """
    problems: list[str] = []
    restricted: dict[str, list[Any]] = {}

    def walk(part: Mapping[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, value in part.items():
            path = (*above, key)
            if not isinstance(value, Mapping):
                kept[key] = value
            elif value and value.keys() <= ANY | RANGE:
                with noted(problems):
                    restricted[".".join(map(str, path))] = _values(value, dotted(*path))
            else:
                kept[key] = walk(value, path)
        return kept

    fixed = walk(mapping, ())
    refuse(problems)
    return fixed, restricted


def _values(stated: Mapping[str, Any], key: str) -> list[Any]:
    if "any" in stated:
        values = stated["any"]
        if len(stated) > 1 or not isinstance(values, list) or not values:
            raise InputError(f"{key} is {show(dict(stated))}; allowed: {{any: [...]}} with a list of values")
        return list({repr(value): value for value in values}.values())  # each is searched once
    numbers = [stated.get(name, default) for name, default in (("from", 1), ("to", None), ("factor", 2))]
    good = all(isinstance(n, int | float) and not isinstance(n, bool) and abs(n) <= LARGEST for n in numbers)
    if not good or numbers[0] <= 0 or numbers[1] < numbers[0] or numbers[2] <= 1:
        raise InputError(f"{key} is {show(dict(stated))}; allowed: {{from: 1, to: 64, factor: 2}}, a factor above 1")
    low, high, factor = numbers
    counts = key.startswith(_COUNTED) and low % 1 == high % 1 == 0
    values = []
    while low <= high * (1 + 1e-9):
        if len(values) == MOST_VALUES:
            raise InputError(f"{key} is {show(dict(stated))}; allowed: up to {MOST_VALUES:,} values")
        values.append(round(low) if counts or low == int(low) else low)
        low *= factor
    return list(dict.fromkeys(values))


def with_forms(error: InputError) -> InputError:
    """Return an error of a scenario that says how a field is searched where a word such as "any" stands for that."""
    told = [_SEARCHED.match(problem) for problem in error.problems]
    if not any(told):
        return error
    how = "; use {any: [...]} to search several values"
    return InputError([f"{problem}{how if word else ''}" for problem, word in zip(error.problems, told, strict=True)])


def undecided(mapping: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each field of a refused scenario that has several values where one is needed."""
    try:
        _, restricted = split_restrictions(mapping)
    except InputError:  # something else is meant, or a search refuses it too
        return []
    return [
        f"{key} is {show(stated_at(mapping, key))}; allowed: one value (use `sightline plan` to search several)"
        for key in restricted
    ]


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def each(kind: Kind, names: str) -> dict[str, Kind]:
    """Several keys with values of one kind, their names separated by spaces."""
    return dict.fromkeys(names.split(), kind)


def lengths_read(stated: object, values: Mapping[str, Any], part: str) -> tuple[str, ...]:
    """Return a remark on each length among a part's ``values`` that was ``stated`` in short: 4k is 4096."""
    written = stated.items() if isinstance(stated, Mapping) else ()
    short = ((key, text) for key, text in written if isinstance(text, str) and isinstance(length_of(text), float))
    return tuple(
        f"{dotted(part, key)} {text} is read as {values[key]:,} tokens (k is 1024)"
        for key, text in short
        if values.get(key) == length_of(text)
    )


@dataclass(slots=True, kw_only=True)
class Complaints:
    """The problems found so far, in order, each once."""

    problems: list[str] = field(default_factory=list)

    def add(self, *sentences: str) -> None:
        """Note sentences, those already noted left out."""
        self.problems.extend(s for s in dict.fromkeys(sentences) if s not in self.problems)

    def note(self, read: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Return what a function reads, or None with the mistakes that it found noted."""
        try:
            return read(*args, **kwargs)
        except InputError as error:
            self.add(*error.problems)
            return None

    def raise_any(self) -> None:
        """Raise `InputError` when there are problems."""
        if self.problems:
            raise InputError(self.problems)


@record
class Checked:
    """A mapping's good values (absent and null keys left out), and the keys that were wrong."""

    values: dict[str, Any]
    wrong: frozenset[str] = frozenset()


def check(keys: Keys, mapping: object, key: str, complaints: Complaints, *, partial: bool = False) -> Checked:
    """Return the good values of the ``mapping`` at a dotted ``key``; note every mistake.

    A ``partial`` mapping may leave out what is needed.
    """
    if mapping is None:
        return Checked(values={})
    if not isinstance(mapping, Mapping):
        complaints.add(f"{key or 'the scenario'} is {show(mapping)}; allowed: a mapping of keys to values")
        return Checked(values={}, wrong=frozenset(keys))
    unknown = {name: _instead(key, name, keys) for name in mapping if name not in keys}
    listed = f"; known keys{' of ' if key else ''}{key}: " + ", ".join(keys)
    complaints.add(*(f"{dotted(key, name)} is not a known key{said or listed}" for name, said in unknown.items()))
    # What is meant by another key is not missing too.
    values, wrong = {}, {name for name in keys if any(f"'{name}'" in said for said in unknown.values())}
    for name, kind in keys.items():
        value = mapping.get(name)
        if value is None:
            continue
        try:
            values[name] = kind(value)
        except InputError as error:
            complaints.add(f"{dotted(key, name)} {error}")
            wrong.add(name)
    checked = Checked(values=values, wrong=frozenset(wrong - values.keys()))
    if not partial:
        require(checked, needs_of(keys), key, complaints)
    return checked


def needs_of(keys: Keys) -> dict[str, str]:
    """Return the keys that may not be left out, with what belongs there."""
    return {name: kind.what for name, kind in keys.items() if isinstance(kind, Needed)}


def built(description: type[T], mapping: object, key: str, complaints: Complaints) -> T | None:
    """Return the description that a mapping at a dotted ``key`` states; None where something that it needs is not good.

    Mistakes are noted.
    """
    keys = keys_of(description)
    values = check(keys, mapping, key, complaints).values
    return description_of(description, values) if needs_of(keys).keys() <= values.keys() else None


def require(checked: Checked, keys: Mapping[str, str], key: str, complaints: Complaints) -> None:
    """Note those of ``keys`` (key to what belongs there) that are absent."""
    absent = [k for k in keys if k not in checked.values and k not in checked.wrong]
    complaints.add(*(f"{dotted(key, k)} is missing; needed: {keys[k]}" for k in absent))


def words_of(
    value: object, key: str, known: tuple[str, ...], same: Mapping[str, str], complaints: Complaints
) -> tuple[str, ...]:
    """Return a word or a list of words, each once in our spelling; ``none`` and an empty list are no words."""
    listed = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    found: list[str] = []
    for word in listed:
        ours = same.get(word, word) if isinstance(word, str) else word
        if ours in known and ours not in found:
            found.append(str(ours))
        elif ours not in known and not (word == "none" and len(listed) == 1):
            complaints.add(not_among(key, word, ("none", *known), (*known, *same)))
    return tuple(found)


def not_among(key: str, value: object, allowed: Sequence[str], spellings: Sequence[str] = ()) -> str:
    """Return the sentence for a value that is none of those ``allowed``, with the nearest of them or ``spellings``."""
    return f"{key} is {show(value)}; allowed: {', '.join(allowed)}{nearest(value, spellings or allowed)}"


_AT_PERCENTILE = re.compile(r"(?:(\w+?)[_.]?)?p(\d{1,2}(?:\.\d+)?)")
"""A limit of an objective that names its percentile too."""


def _instead(key: str, name: object, known: Keys) -> str:
    """What to use instead of a key that is not known, as the end of a sentence; empty where nothing is like it."""
    if instead := _ELSEWHERE.get(dotted(key, name)):
        return f"; use {instead}"
    matched = _AT_PERCENTILE.fullmatch(str(name)) if "ttft" in known else None
    if matched is None:
        return meant(name, list(known))
    limit = next((of for of in known if f"'{of}'" in meant(matched[1], list(known))), matched[1])
    return f"; use {f'{limit} and ' if limit else ''}workload.slo.percentile: {matched[2]}"
