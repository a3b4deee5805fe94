"""Validation at the edge: a mapping against its structure, and every mistake as a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from sightline.errors import InputError, nearest
from sightline.loading.dotted_keys import dotted
from sightline.loading.fields import REFUSED
from sightline.quantities import show


@dataclass(slots=True, kw_only=True)
class Complaints:
    """The problems found so far, in order, each once."""

    problems: list[str] = field(default_factory=list)

    def add(self, *sentences: str) -> None:
        """Note sentences, those already noted left out."""
        self.problems.extend(s for s in dict.fromkeys(sentences) if s not in self.problems)

    def raise_any(self) -> None:
        """Raise `InputError` when there are problems."""
        if self.problems:
            raise InputError(self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A mapping's good values (absent and null keys left out), and the keys that were wrong."""

    values: dict[str, Any]
    wrong: frozenset[str] = frozenset()


def check(schema: type[BaseModel], mapping: object, key: str, complaints: Complaints) -> Checked:
    """Hold ``mapping``, which stands at the dotted ``key``, to its structure; note every mistake."""
    if mapping is None:
        return Checked(values={})
    if not isinstance(mapping, Mapping):
        complaints.add(f"{key or 'the scenario'} is {show(mapping)}; allowed: a mapping of keys to values")
        return Checked(values={}, wrong=frozenset(schema.model_fields))
    known = {k: v for k, v in mapping.items() if k in schema.model_fields}
    complaints.add(*(_unknown(key, k, schema.model_fields) for k in mapping if k not in schema.model_fields))
    try:
        valid, wrong = schema.model_validate(known), frozenset[str]()
    except ValidationError as error:
        mistakes = error.errors(include_url=False, include_input=False)
        complaints.add(*(f"{dotted(key, m['loc'][0])} {_half_sentence(m)}" for m in mistakes))
        wrong = frozenset(str(m["loc"][0]) for m in mistakes)
        valid = schema.model_validate({k: v for k, v in known.items() if k not in wrong})
    return Checked(values={k: v for k, v in valid.__dict__.items() if v is not None}, wrong=wrong)


def require(checked: Checked, keys: Mapping[str, str], key: str, complaints: Complaints) -> None:
    """Note those of ``keys`` (key to what belongs there) that are absent."""
    absent = [k for k in keys if k not in checked.values and k not in checked.wrong]
    complaints.add(*(f"{dotted(key, k)} is missing; needed: {keys[k]}" for k in absent))


def _unknown(key: str, name: object, known: Mapping[str, Any]) -> str:
    near = nearest(name, list(known)) if isinstance(name, str) else ""
    listed = f"; known keys{' of ' if key else ''}{key}: " + ", ".join(known)
    return f"{dotted(key, name)} is not a known key{near or listed}"


def _half_sentence(mistake: Any) -> str:
    """The half sentence of a pydantic error; all values are checked by our own types, so all errors are ours."""
    if mistake["type"] != REFUSED:
        return f"is not understood: {mistake['msg']}"
    return str(mistake["msg"])
