"""State each option of a framework once: how a scenario's value is written with it, and how it is read back."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sightline.launching.options import Options

W = TypeVar("W")
"""What is written: a scenario, or what servers are asked for."""
R = TypeVar("R")
"""What is read: the options of a command, or the settings of a file."""


def _nothing(_: object) -> None:
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Option(Generic[W, R]):
    """An option of a command, or a key of a file."""

    name: str
    """As the framework spells it: ``--max-num-seqs``, or the dotted key of a file."""
    field: str = ""
    """Field of the plan that it says; empty where it says none, or another option says that field."""
    write: Callable[[W], object] = _nothing
    """Returns the value that a scenario gives the option; None leaves it out."""
    read: Callable[[R], object] = _nothing
    """Returns the value of the field; None where what was given does not say."""
    least: int | None = None
    """Of a key of a file that is a whole number, the smallest that is allowed."""


def written(table: Iterable[Option[W, Any]], request: W) -> dict[str, Any]:
    """Return the values of a table's options for what is written, by name; a switch that is off is ``--no-NAME``."""
    found: dict[str, Any] = {}
    for option in table:
        value = option.write(request)
        if value is False and option.name.startswith("--"):
            found[f"--no-{option.name[2:]}"] = True
        elif value is not None:
            found[option.name] = value
    return found


def fixed(name: str, value: object) -> Option[Any, Any]:
    """Return an option that has the same value in every launch."""
    return Option(name, write=lambda _: value)


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file, those with dotted names as groups of groups."""
    tree: dict[str, Any] = {}
    for name, value in settings.items():
        *groups, key = name.split(".")
        inner = tree
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[key] = value
    return tree


def fields_read(table: Iterable[Option[Any, R]], stated: R) -> dict[str, Any]:
    """Return the fields of a plan that what was given says, in the order of the table."""
    values = [(option.field, option.read(stated)) for option in table]
    return {field: value for field, value in values if field and value is not None}


def plan_read(table: Iterable[Option[Any, Options]], options: Options) -> dict[str, Any]:
    """Return the fields of a plan that options say; those that only running the script would tell are its missing keys.

    That is every field that is called after such an option or asks for one.
    """
    fields: dict[str, Any] = {}
    own = {options.named(option.name): option.field for option in table if option.field}
    for option in table:
        options.opened.clear()
        fields |= fields_read([option], options)
        options.missing |= {f"plan.{option.field}": said for said in options.opened[:1] if option.field}
    options.missing |= {f"plan.{own[name]}": said for name, said in options.unknown.items() if name in own}
    return {field: value for field, value in fields.items() if f"plan.{field}" not in options.missing}


def fields_written(table: Iterable[Option[Any, Any]]) -> frozenset[str]:
    """Return the fields of a plan that some option of a table says."""
    return frozenset(option.field for option in table) - {""}
