"""What one model family is made of and how configs spell it, as ``families.yaml`` and ``spellings.yaml`` state it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sightline.catalog.yaml12 import parse

OWN_FAMILY = "transformer"
"""Ours: every feature stated, so that any `sightline.scenario.Model` can be written down."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """What the configs of one ``model_type`` leave out; keys as in `sightline.loading.models.keys.MODEL`."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A key that governs others: they take its value (the opposite of it for ``no_...``) unless stated themselves."""
    needs: tuple[str, ...] = ()
    """Figures that a config must state in addition to those every family needs."""
    activations: tuple[str, ...] = ("gelu", "relu", "swiglu")
    features: frozenset[str] = frozenset()
    """What its layers may hold beyond full attention and a dense MLP, as ``spellings.yaml`` names it."""
    interleaved: str = "sliding"
    """Mixer of the layers between those of full attention where ``full_attention_interval`` counts."""
    shared_is_dense: bool = False
    """Each layer runs the dense MLP next to the experts, so it is their shared expert."""
    low_rank_gates: bool = False
    """Linear attention has a decay for every key channel; it and the output gate pass through a head's width (Kimi)."""
    halved_intermediate: bool = False
    """``intermediate_size`` counts both input projections."""
    assumption: str = ""
    """What is predicted in place of what its layers do."""
    states_blocks: bool = False
    """Its mapping states every block outright, under the names of `sightline.scenario.Model`."""


class Spellings(NamedTuple):
    """How configs spell what families have; ``spellings.yaml`` says what each part is."""

    spellings: Mapping[str, tuple[str, ...]]
    nested: tuple[str, ...]
    dropouts: tuple[str, ...]
    activations: Mapping[str, str]
    features: Mapping[str, Mapping[str, Any]]
    foreign: Mapping[str, Mapping[str, Any]]
    ignored: frozenset[str]
    needed: Mapping[str, str]
    blocks: Mapping[str, Mapping[str, str]]
    mixers: Mapping[str, str]
    single_blocks: Mapping[str, tuple[str, str]]
    formats: Mapping[str, str]


@cache
def families() -> tuple[str, ...]:
    """Return the ``model_type`` of every family."""
    return tuple(name for name, stated in _table("families").items() if isinstance(stated, dict) and name[0] != "_")


@cache
def other_names() -> tuple[str, ...]:
    """Return other values of ``model_type`` for the same architectures."""
    return tuple(name for name, stated in _table("families").items() if isinstance(stated, str))


def family_of(model_type: object) -> Family | None:
    """Return the family of a ``model_type``, or None."""
    if model_type in other_names():
        model_type = _table("families")[model_type]
    return _family(str(model_type)) if model_type in families() else None


def entry_of(name: str) -> Family:
    """Return an entry of ``families.yaml`` by its name, also one that is no family."""
    return _family(name)


@cache
def _family(name: str) -> Family:
    """An entry on top of the one that it is like: features add up, other fields and defaults take their place."""
    stated = dict(_table("families")[name])
    base = _family(stated.pop("like")) if "like" in stated else Family()
    own = {f.name: stated.pop(f.name) for f in fields(Family) if f.name in stated}
    for key in {"needs", "activations"} & own.keys():
        own[key] = _words(own[key])
    if "switches" in own:
        own["switches"] = {key: _words(governed) for key, governed in own["switches"].items()}
    own["features"] = base.features.union(own.get("features", ()))
    return replace(base, **own, defaults={**base.defaults, **stated})


def _words(text: str) -> tuple[str, ...]:
    """The words of a text, those that stand for several written out."""
    several = _table("families")["_words"]
    return tuple(word for group in text.split() for word in several.get(group, group).split())


@cache
def spellings() -> Spellings:
    """Return how configs spell what families have."""
    stated = _table("spellings")
    words = {key: tuple(stated[key].split()) for key in ("nested", "dropouts")}
    ours = {key: tuple(theirs.split()) for key, theirs in stated["spellings"].items()}
    return Spellings(**{**stated, **words, "spellings": ours, "ignored": frozenset(stated["ignored"].split())})


@cache
def _table(name: str) -> Mapping[str, Any]:
    """A file of data next to this module."""
    table: Mapping[str, Any] = parse(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))
    return table
