"""Answers of any task as text: one in full, several of a kind as a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.profile import GENERATION, OPERATOR, TRAINING, Profile
from sightline.report import generation_terminal, operator_terminal, terminal

if TYPE_CHECKING:
    from rich.console import RenderableType


def tables(answers: Sequence[Profile]) -> "list[RenderableType]":
    """Return, for each kind of answer, a block for one and a table for several."""
    steps = [a for a in answers if a.task is TRAINING]
    generations = [a for a in answers if a.task is GENERATION]
    operators = [a for a in answers if a.task is OPERATOR]
    found = [terminal.one(steps[0]) if len(steps) == 1 else terminal.many(steps)] if steps else []
    if generations:
        one = len(generations) == 1
        found.append(generation_terminal.one(generations[0]) if one else generation_terminal.many(generations))
    if operators:
        one = len(operators) == 1
        found.append(operator_terminal.one(operators[0]) if one else operator_terminal.many(operators))
    return found
