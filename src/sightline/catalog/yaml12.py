"""YAML with the scalars of the 1.2 core schema: ``2e12`` is a number, ``off`` and ``2024-01-31`` are strings.

PyYAML reads YAML 1.1, where ``2e12`` is a string and ``off`` is false. This loader keeps its (C) parser and replaces the
scalar rules (https://yaml.org/spec/1.2.2/#1032-tag-resolution). Duplicate keys are refused: the last one winning
silently is never what the writer meant.
"""

import re
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar

import yaml

from sightline.errors import InputError

if TYPE_CHECKING:
    from yaml import SafeLoader as _Parser
else:
    _Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG = "tag:yaml.org,2002:"
_SCALARS: tuple[tuple[str, str, str], ...] = (
    ("null", r"null|Null|NULL|~|", "nN~\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
)
"""Tag, pattern of the whole scalar, and the characters it may start with (NUL stands for an empty scalar)."""

MAX_DEPTH = 200
"""Levels of nested lists and mappings that are read."""


class _CoreLoader(_Parser):
    """The parser with core-schema scalars and nothing else: no dates, no merge keys, no tags of other types."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}
    yaml_constructors: ClassVar[dict[str | None, Any]] = {}


def _mapping(loader: _CoreLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    mapping: dict[Hashable, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(None, None, "a key must be a plain word", key_node.start_mark)
        if key in mapping:
            raise yaml.constructor.ConstructorError(None, None, f"the key '{key}' appears twice", key_node.start_mark)
        mapping[key] = loader.construct_object(value_node, deep=True)
    return mapping


def _sequence(loader: _CoreLoader, node: yaml.SequenceNode) -> list[Any]:
    return [loader.construct_object(item, deep=True) for item in node.value]


def _integer(_: _CoreLoader, node: yaml.ScalarNode) -> int:
    text: str = node.value
    return int(text, 0) if text[:2] in ("0x", "0o") else int(text)


def _float(_: _CoreLoader, node: yaml.ScalarNode) -> float:
    text: str = node.value.lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


for _kind, _pattern, _first in _SCALARS:
    for _character in _first:
        _CoreLoader.yaml_implicit_resolvers.setdefault(_character.replace("\0", ""), []).append(
            (_TAG + _kind, re.compile(rf"(?:{_pattern})\Z"))
        )
_CoreLoader.yaml_constructors.update(
    {
        _TAG + "map": _mapping,
        _TAG + "seq": _sequence,
        _TAG + "str": lambda _, node: node.value,
        _TAG + "null": lambda _, node: None,
        _TAG + "bool": lambda _, node: node.value.lower() == "true",
        _TAG + "int": _integer,
        _TAG + "float": _float,
        None: _CoreLoader.construct_undefined,
    }
)


def _refuse_deep_nesting(text: str) -> None:
    """Raise `InputError` when collections nest deeper than ``MAX_DEPTH``: the C parser has no guard of its own."""
    if sum(map(text.count, "[{-?:")) <= MAX_DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_CoreLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise InputError(f"not valid YAML: nested more than {MAX_DEPTH} levels deep")


def parse_all(text: str) -> list[Any]:
    """Return the documents of ``text``; raise `InputError` with one sentence where it is not YAML."""
    try:
        _refuse_deep_nesting(text)
        return list(yaml.load_all(text, Loader=_CoreLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"not valid YAML{where}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"not valid YAML: {reason}") from None


def parse(text: str) -> Any:
    """Return the one document of ``text`` (None when it is empty); raise `InputError` where it is not one document."""
    documents = parse_all(text)
    if len(documents) > 1:
        raise InputError(f"one YAML document expected, {len(documents)} found")
    return documents[0] if documents else None
