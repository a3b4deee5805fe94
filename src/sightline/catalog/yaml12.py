"""YAML with the scalars of the 1.2 core schema: ``2e12`` is a number, ``off`` and ``2024-01-31`` are strings.

PyYAML reads YAML 1.1, where ``2e12`` is a string and ``off`` is false. This loader keeps its (C) parser and replaces
the scalar rules (https://yaml.org/spec/1.2.2/#1032-tag-resolution). Duplicate keys are refused: the last one winning
silently is never what the writer meant. Under a key that holds a release (``holds_releases``) a number with a point
stays text, for 0.10 is another release than 0.1.
"""

import re
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

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

_LEADING = re.compile(r"^[-?: ]*", re.MULTILINE)

_RELEASE_KEY = re.compile(r"([\w-]+\.)*(framework_)?version")

MAX_DEPTH = 200
"""Levels of nested lists and mappings that are read."""


class _CoreLoader(_Parser):
    """The parser with core-schema scalars and nothing else: no dates, no merge keys, no tags of other types."""


def _refused(node: yaml.Node, reason: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, reason, node.start_mark)


def _mapping(loader: _CoreLoader, node: yaml.Node) -> dict[Hashable, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise _refused(node, "expected a mapping")
    mapping: dict[Hashable, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise _refused(key_node, "a key must be a plain word")
        if key in mapping:
            raise _refused(key_node, f"key '{key}' appears twice")
        if holds_releases(key):
            _keep_points(value_node)
        mapping[key] = loader.construct_object(value_node, deep=True)
    return mapping


def holds_releases(key: object) -> bool:
    """Return whether a key, which may be a dotted one, holds the number of a release."""
    return isinstance(key, str) and _RELEASE_KEY.fullmatch(key) is not None


def _keep_points(node: yaml.Node) -> None:
    """Make numbers with a point text, in a list each of them."""
    for one in node.value if isinstance(node, yaml.SequenceNode) else [node]:
        if one.tag == _TAG + "float":
            one.tag = _TAG + "str"


def _sequence(loader: _CoreLoader, node: yaml.Node) -> list[Any]:
    if not isinstance(node, yaml.SequenceNode):
        raise _refused(node, "expected a list")
    return [loader.construct_object(item, deep=True) for item in node.value]


def _text(_: _CoreLoader, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _refused(node, "expected a plain value")
    return str(node.value)


def _null(loader: _CoreLoader, node: yaml.Node) -> None:
    _text(loader, node)


def _boolean(loader: _CoreLoader, node: yaml.Node) -> bool:
    return _text(loader, node).lower() == "true"


def _integer(loader: _CoreLoader, node: yaml.Node) -> int:
    text = _text(loader, node)
    return int(text, 0) if text[:2] in ("0x", "0o") else int(text)


def _float(loader: _CoreLoader, node: yaml.Node) -> float:
    return float(_text(loader, node).lower().replace(".inf", "inf").replace(".nan", "nan"))


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the scalar rules as the parser looks them up: by first character."""
    rules: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for kind, pattern, first in _SCALARS:
        for character in first:
            rule = (_TAG + kind, re.compile(rf"(?:{pattern})\Z"))
            rules.setdefault(character.replace("\0", ""), []).append(rule)
    return rules


# The parser's own tables are replaced, not added to: they would bring the 1.1 rules back.
_CoreLoader.yaml_implicit_resolvers = _resolvers()
_CoreLoader.yaml_constructors = {
    _TAG + "map": _mapping,
    _TAG + "seq": _sequence,
    _TAG + "str": _text,
    _TAG + "null": _null,
    _TAG + "bool": _boolean,
    _TAG + "int": _integer,
    _TAG + "float": _float,
    None: _CoreLoader.construct_undefined,
}


def _refuse_deep_nesting(text: str) -> None:
    """Raise `InputError` when collections nest deeper than ``MAX_DEPTH``: the C parser has no guard of its own."""
    # Block collections begin after nothing but spaces and markers, two at most in one column; flow ones with a bracket.
    deepest_column = max(map(len, _LEADING.findall(text)))
    if 2 * (deepest_column + 1) + text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_CoreLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise InputError(f"not valid YAML: nested more than {MAX_DEPTH} levels deep")


def plain_reason(error: Exception) -> str:
    """Return what is wrong with a text; of a number too long for Python without its advice to programmers."""
    said = " ".join(str(error).split())
    return "a whole number has more than 4,300 digits" if "set_int_max_str_digits" in said else said


def parse_all(text: str) -> list[Any]:
    """Return the documents of ``text``; raise `InputError` with one sentence where it is not YAML."""
    try:
        _refuse_deep_nesting(text)
        return list(yaml.load_all(text, Loader=_CoreLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        escapes = re.search("escape|hexdecimal", error.problem or "")
        hint = "; a backslash in double quotes starts an escape; use single quotes or /" if escapes else ""
        raise InputError(f"not valid YAML{where}: {error.problem}{hint}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise InputError(f"not valid YAML: {plain_reason(error)}") from None


def parse(text: str) -> Any:
    """Return the one document of ``text`` (None when it is empty); raise `InputError` where it is not one document."""
    return one_of(parse_all(text))


def one_of(documents: list[Any]) -> Any:
    """Return the one document of a text; raise `InputError` where there are several."""
    if len(documents) > 1:
        raise InputError(f"expected one YAML document, found {len(documents)}")
    return documents[0] if documents else None
