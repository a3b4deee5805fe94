"""A text read character by character, and the arithmetic that a shell computes in it."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Final


class Scanner:
    """A text that is read from its beginning to its end."""

    def __init__(self, text: str) -> None:
        """Begin at the first character."""
        self.text, self.at = text, 0

    def left(self) -> bool:
        """Whether there is more."""
        return self.at < len(self.text)

    def peek(self) -> str:
        """Return the next character."""
        return self.text[self.at]

    def take(self) -> str:
        """Return the next character, and go on; an empty text at the end."""
        self.at += 1
        return self.text[self.at - 1 : self.at]

    def starts(self, with_text: str) -> bool:
        """Whether this comes next."""
        return self.text.startswith(with_text, self.at)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Return what comes next if it is of a pattern, and go on behind it."""
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def until(self, end: str, *, closed: bool = False) -> str:
        """Return the text before the next ``end``, which is passed where it closes something."""
        place = self.text.find(end, self.at)
        place = len(self.text) if place < 0 else place
        found, self.at = self.text[self.at : place], place + len(end) * closed
        return found

    def balanced(self) -> str:
        """Return a substitution with all of its brackets."""
        start, depth = self.at, 0
        while self.left():
            here = self.take()
            depth += (here == "(") - (here == ")")
            if here == ")" and depth == 0:
                break
        return self.text[start : self.at]


_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}


def computed(text: str) -> int | None:
    """Return the value of whole-number arithmetic; None where it is not all numbers."""
    try:
        return _of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None


def _of(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_of(left), _of(right))
    raise ValueError(ast.unparse(node))
