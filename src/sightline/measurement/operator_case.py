"""What a measured operator is: a call that is told its turn, and the name of how PyTorch carries it out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sightline.errors import InputError, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An operator ready to be called again and again."""

    call: Callable[[int], object]
    implementation: str
    sets: int
    """Sets of operands that take turns."""
    operators: int = 1
    """Executions of the operator in a call."""
    remarks: Mapping[str, Any] = field(default_factory=dict)
    """What the scenario leaves open and was chosen, for the record."""


def chosen(operator: str, asked: str | None, known: tuple[str, ...]) -> str:
    """Return the implementation asked for, or the first one; raises `InputError` naming those there are."""
    if asked is None:
        return known[0]
    if asked not in known:
        raise InputError(
            f"--implementation is '{asked}'; of {operator} there are: {', '.join(known)}{nearest(asked, known)}"
        )
    return asked
