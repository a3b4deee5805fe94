"""Dotted keys into nested mappings, ``--set`` overrides, and sweeps as the product of scenarios."""

import re
from collections.abc import Iterable, Mapping
from itertools import product
from math import prod
from typing import Any

from sightline.errors import InputError
from sightline.quantities import show

MOST_SCENARIOS = 100_000
"""Scenarios that one file's sweep may stand for."""

DEEPEST_KEY = 20
"""Parts of a dotted key; scenarios have up to four."""

_WORD = re.compile(r"[\w.-]{1,80}")
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
        raise InputError(f"{show(key)} is not a key: a dotted key such as plan.micro_batch is needed")
    return _set(mapping, path, value, ())


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
        raise InputError(f"{whole} cannot be set: {at} is {show(inner)}, not a mapping")
    return {**mapping, head: _set(inner or {}, below, value, (*above, head))}


def key_value(argument: object) -> tuple[str, str]:
    """Split ``key=value`` of ``--set`` and ``--sweep``."""
    key, equals, value = argument.partition("=") if isinstance(argument, str) else ("", "", "")
    if not equals or not key.strip():
        raise InputError(f"{show(argument)} is not of the form key=value, such as plan.micro_batch=2")
    return key.strip(), value.strip()


def check_sweep(sweep: object) -> dict[str, list[Any]]:
    """Return a ``sweep`` mapping when it is one of dotted keys, each with a list of values."""
    if not isinstance(sweep, Mapping):
        raise InputError(f"sweep is {show(sweep)}; allowed: dotted keys, each with a list of values")
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
        raise InputError(f"sweep stands for {show(count)} scenarios; allowed: up to {MOST_SCENARIOS}")
    for values in product(*sweep.values()):
        scenario, cell = dict(mapping), dict(zip(sweep, values, strict=True))
        for key, value in cell.items():
            scenario = with_value(scenario, key, value)
        yield cell, scenario
