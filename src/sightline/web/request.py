"""What the address of a page asks: dotted keys of a scenario, and the options of a view."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from sightline.catalog.yaml12 import parse
from sightline.errors import InputError, prefixed
from sightline.loading import read_all
from sightline.loading.checks import with_value
from sightline.loading.sources import as_text, read_json, value_of, without_files

if TYPE_CHECKING:
    from sightline.explanation.answer import Advice
    from sightline.loading.loader import Asked as Scenario
    from sightline.loading.loader import Loaded

MOST_SCENARIOS: Final = 64
"""That a sweep of a page may stand for: they are answered at once."""
MORE, CONFIG, ANCHOR = "more", "config", "anchor"
"""Fields that hold further keys as YAML, a pasted ``config.json``, and what was measured of which scenario."""
_WIDE: Final = "wide"
"""What the script says of a screen that shows no narrow forms of charts."""
_NOT_STATE: Final = ("fragment", _WIDE)
SWEPT: Final = "sweep."
"""Begins the keys of fields that hold several values."""
BASELINE: Final = "baseline"
"""The option that every view carries along: a scenario that differences are told to."""
_HEADS: Final = ("name", "model", "cluster", "workload", "plan", "sweep", "measured", "unread")
"""First words of the keys of a scenario."""


@dataclass(frozen=True)
class Asked:
    """The fields of an address, without empty ones."""

    values: Mapping[str, str]
    is_wide: bool = False
    """Whether the narrow forms of charts are of no use."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "Asked":
        """Return what the pairs of a query ask; the last of several values counts."""
        found = dict(pairs)
        values = {key: value.strip() for key, value in found.items() if value.strip() and key not in _NOT_STATE}
        return cls(values, is_wide=_WIDE in found)

    def option(self, name: str, default: str = "") -> str:
        """Return a view's own option."""
        return self.values.get(name, default)

    @property
    def anchors(self) -> list[str]:
        """What was measured: the name of its file, or the figure."""
        stated = (dict(parse_qsl(line)) for line in self.values.get(ANCHOR, "").splitlines())
        return [one.get("name") or _measured_in(one) for one in stated]

    @property
    def query(self) -> str:
        """The address's query again."""
        return urlencode(self.values)

    @property
    def scenario_values(self) -> Mapping[str, str]:
        """The fields of the scenario alone, which all views share."""
        return {key: value for key, value in self.values.items() if is_of_scenario(key)}

    @property
    def corrected_values(self) -> Mapping[str, str]:
        """The fields of the scenario with what was measured of it, which corrects its answer."""
        return {key: value for key, value in self.values.items() if is_of_scenario(key) or key == ANCHOR}

    @property
    def scenario_query(self) -> str:
        """The query of the scenario alone, with what was measured of it."""
        return urlencode(self.corrected_values)

    def query_for(self, takes: Callable[[str, str], bool]) -> str:
        """Return the query that shows the same scenario in a view that takes some keys of a task's."""
        task = self.values.get("workload.task", "")
        carried = {key: self.values[key] for key in (BASELINE, ANCHOR) if key in self.values}
        return urlencode({key: v for key, v in self.scenario_values.items() if takes(key, task)} | carried)

    def further(self, fields: Iterable[str]) -> str:
        """Return what belongs in the text of further keys: that text, and keys of the scenario without a field."""
        known = {MORE, CONFIG, *fields}
        lines = [f"{key}: {text}" for key, text in self.scenario_values.items() if key not in known]
        return "\n".join(filter(None, (self.values.get(MORE, ""), *lines)))

    @cached_property
    def mapping(self) -> Mapping[str, Any]:
        """The scenario as a file would state it; raise `InputError` for fields that hold no values."""
        found: dict[str, Any] = {}
        stated = {key: text for key, text in self.scenario_values.items() if key not in (MORE, CONFIG)}
        if "workload.trace" in stated:  # a form sends the sizes that it starts with too
            stated = {key: text for key, text in stated.items() if not key.startswith("workload.requests.")}
        # A whole part before the keys in it, in whatever order they came.
        for key in sorted(stated, key=lambda key: key.count(".")):
            if key.startswith(SWEPT):
                found = {**found, "sweep": {**found.get("sweep", {}), key[len(SWEPT) :]: _listed(key, stated[key])}}
            else:
                found = with_value(found, key, _value(key, stated[key]))
        for key, value in lines(MORE, self.values.get(MORE, "")).items():
            found = {**found, key: value} if key == "sweep" else with_value(found, key, value)
        return {**found, "model": _config(self.values[CONFIG])} if CONFIG in self.values else found

    @cached_property
    def loaded(self) -> "Loaded":
        """The scenarios that are asked for; raise `InputError` with every mistake."""
        return read([self.mapping])

    def scenario(self) -> "Scenario":
        """Return the one scenario that is asked for; raise `InputError` with every mistake."""
        return read_one(self.mapping)


def _measured_in(values: Mapping[str, str]) -> str:
    """The first measured figure of a scenario's fields with its value; empty where there is none."""
    prefix = "measured."
    return next((f"{key.removeprefix(prefix)} {text}" for key, text in values.items() if key.startswith(prefix)), "")


def is_of_scenario(key: str) -> bool:
    """Return whether a field belongs to the scenario and not to a view."""
    return key.partition(".")[0] in _HEADS or key in (MORE, CONFIG)


def read(mappings: Iterable[object], most: int = MOST_SCENARIOS) -> "Loaded":
    """Return the scenarios of mappings; raise `InputError` for mistakes, files, and sweeps of more than ``most``."""
    asked = list(mappings)
    for mapping in asked:
        _check_size(mapping, most)
    with without_files():
        return read_all(asked, possible_only=True)


def read_one(mapping: object) -> "Scenario":
    """Return the one scenario of a mapping; raise `InputError` for mistakes, files, and sweeps."""
    found = read([mapping]).scenarios
    if len(found) != 1:
        raise InputError(f"sweep stands for {len(found):,} scenarios; allowed here: one")
    return found[0]


def _check_size(mapping: object, most: int) -> None:
    """Raise `InputError` for a sweep that is too large, before it is laid out."""
    from math import prod

    sweep = mapping.get("sweep") if isinstance(mapping, Mapping) else None
    lists = [value for value in sweep.values() if isinstance(value, list)] if isinstance(sweep, Mapping) else []
    if (count := prod(map(len, lists))) > most:
        raise InputError(f"sweep stands for {count:,} scenarios; allowed here: up to {most}")


def _value(key: str, text: str) -> Any:
    """What a field holds, as ``--set`` reads it."""
    with prefixed(f"{key}: "):
        return value_of(key, text)


def _listed(key: str, text: str) -> list[Any]:
    value = _value(key, text if text.startswith("[") else f"[{text}]")
    return value if isinstance(value, list) else [value]


def lines(field: str, text: str) -> Mapping[str, Any]:
    """Return what a field's lines say, a key with its value each: ``plan.virtual_stages: 2``."""
    if not text.strip():
        return {}
    with prefixed(f"{field}: "):
        found = parse(text)
    if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
        raise InputError(f"{field}: a line has a dotted key, a colon and a value, such as plan.virtual_stages: 2")
    return found


def _config(text: str) -> Mapping[str, Any]:
    """The model of a pasted ``config.json``."""
    with prefixed(f"{CONFIG}: "):
        found = read_json(text, infinities=True)
    if not isinstance(found, Mapping):
        raise InputError(f"{CONFIG}: a config.json is a mapping in braces")
    return found


def with_change(stated: Mapping[str, str]) -> "Callable[[Advice], str]":
    """Return what links advice to the prediction of a scenario with the change; empty for one that is none of it."""

    def link(advice: "Advice") -> str:
        changed = {key: as_text(value) for key, value in advice.set.items()}
        return f"/predict?{urlencode({**stated, **changed})}" if changed else ""

    return link
