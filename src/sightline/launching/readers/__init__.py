"""What a reader of launches knows of the keys that it does not read: data, one YAML file for each reader.

``harmless``: keys that change neither shapes nor memory nor time, by the reason. ``changes``: keys that may, by what
they change. ``usual``: words of such a key that say what is done anyway. ``refused``: words that mean something that is
not predicted, and what that is; any stands for all but null and false. A key in none of them may change anything
unless it is null. Of a dotted key, the group may be listed.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sightline.catalog.yaml12 import parse
from sightline.content import record
from sightline.errors import refuse
from sightline.launching.launch import Reading
from sightline.launching.options import not_read
from sightline.quantities import show

V = TypeVar("V")


@record
class Reader:
    """What is known of one tool's keys."""

    tool: str
    """As messages name it."""
    release: str
    """Whose keys these are."""
    harmless: Mapping[str, str]
    changes: Mapping[str, str] = field(default_factory=dict)
    usual: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a key is harmless, by the key."""
    effects: Mapping[str, str] = field(default_factory=dict)
    """What a key changes, by the key."""

    def matters(self, given: Mapping[str, Any]) -> list[str]:
        """Return the names that may change something, of those that nobody has read."""
        return [name for name, value in given.items() if not self._is_harmless(name, value)]

    def refusals(self, given: Mapping[str, Any]) -> Iterator[str]:
        """Yield a sentence for each value that means something that is not predicted."""
        for name, value in given.items():
            meanings = _of(self.refused, name) or {}
            general = None if value in (None, False) else meanings.get("any")
            what = meanings.get(_word(value)) or general
            if what and not self._is_harmless(name, value):
                yield f"{name} is {show(value)}: {what} of {self.tool}, which is not predicted"

    def _is_harmless(self, name: str, value: Any) -> bool:
        usual = str(self.usual.get(_key(name), "")).split()
        return value is None or _word(value) in usual or _of(self.reasons, name) is not None


def _key(name: str) -> str:
    """The name of an option or key as it is looked up: without dashes before it and ``_``."""
    return name.lstrip("-").replace("_", "-")


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool | None) else str(value)


def _of(listed: Mapping[str, V], name: str) -> V | None:
    """What is listed for a name, for what it switches off, or for a group that it is in."""
    key = _key(name)
    while key not in listed and "." in key:
        key = key.rpartition(".")[0]
    return listed.get(key) or listed.get(key.removeprefix("no-")) or listed.get(f"no-{key}")


@cache
def reader(name: str) -> Reader:
    """Return what is known of the keys of a tool."""
    stated: dict[str, Any] = parse(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))
    shared = _harmless(stated.pop("like", ""))
    harmless = {**shared, **{why: f"{shared.get(why, '')} {keys}" for why, keys in stated.pop("harmless").items()}}
    stated["usual"] = {_key(key): words for key, words in stated.get("usual", {}).items()}
    refused = stated.get("refused", {}).items()
    stated["refused"] = {_key(key): {_word(word): what for word, what in words.items()} for key, words in refused}
    reasons, effects = _by_key(harmless), _by_key(stated.get("changes", {}))
    return Reader(**stated, harmless=harmless, reasons=reasons, effects=effects)


def _harmless(like: str) -> Mapping[str, str]:
    text = Path(__file__).with_name(f"{like}.yaml").read_text(encoding="utf-8") if like else "harmless: {}"
    found: Mapping[str, str] = parse(text)["harmless"]
    return found


def _by_key(listed: Mapping[str, str]) -> dict[str, str]:
    return {_key(key): what for what, keys in listed.items() for key in keys.split()}


def with_unread(
    reading: Reading, tool: str, given: Mapping[str, Any], known: Collection[str] = (), of: str = ""
) -> Reading:
    """Return a reading that says which keys it has not read, as far as they matter.

    Args:
        reading: What was read.
        tool: Whose lists count.
        given: The keys that nobody has read, with their values.
        known: Names that are read, one of which may be meant.
        of: Whose they are, such as "Megatron-LM's".

    Raises:
        InputError: A key says something that is not predicted.
    """
    lists = reader(tool)
    refuse(list(lists.refusals(given)))
    unread = lists.matters(given)
    effects = {name: what for name in unread if (what := _of(lists.effects, name))}
    said = [*not_read(unread, known, of, effects), *reading.without_counterpart]
    return replace(reading, unread=[*reading.unread, *unread], without_counterpart=said)


def leaves(stated: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of a file and those in its groups, as ``group.key``, with their values."""
    for key, value in stated.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{within}{key}.")
        else:
            yield f"{within}{key}", value
