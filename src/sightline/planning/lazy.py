"""Sequences that are worked out when they are first read: most callers of a search read none of what explains it."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar, overload

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """What a function returns, which runs once, when somebody asks for an element or for their number."""

    def __init__(self, make: Callable[[], Sequence[T]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Sequence[T]:
        return self._make()

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...
    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        return self._made[place]

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        return repr(list(self._made))
