"""Dataclasses whose methods are compiled late behave as those of the standard library."""

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest

from sightline.lazy_dataclass import dataclass


def made(decorator: Any) -> Any:
    """A class of all that descriptions have."""

    @decorator(frozen=True, slots=True, kw_only=True)
    class Described:
        """A description."""

        kind: ClassVar[str] = "described"
        needed: int
        listed: list[int] = dataclasses.field(default_factory=list, compare=False)
        shown: float = dataclasses.field(default=2.0, repr=False)
        counted: int = dataclasses.field(default=3, init=False)

    return Described


LATE, STANDARD = made(dataclass), made(dataclasses.dataclass)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What can be pickled by its name."""

    x: float
    y: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Point):
    """One that inherits."""

    name: str = "p"


def test_values_and_defaults_are_the_same() -> None:
    for given in ({"needed": 1}, {"needed": 2, "listed": [3], "shown": 4.0}):
        late, standard = LATE(**given), STANDARD(**given)
        assert dataclasses.asdict(late) == dataclasses.asdict(standard)
        assert repr(late) == repr(standard)
        assert hash(late) == hash(standard)
        assert (
            dataclasses.asdict(dataclasses.replace(late, needed=7) if "counted" not in given else late)["needed"] == 7
        )


@pytest.mark.parametrize("given", [{}, {"needed": 1, "other": 2}, {"needed": 1, "counted": 2}])
def test_wrong_arguments_are_refused_in_the_same_words(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as late:
        LATE(**given)
    with pytest.raises(TypeError) as standard:
        STANDARD(**given)
    assert str(late.value) == str(standard.value)


def test_equality_looks_at_compared_fields_of_the_same_class() -> None:
    assert LATE(needed=1, listed=[1]) == LATE(needed=1)
    assert LATE(needed=1) != LATE(needed=2)
    assert LATE(needed=1) != STANDARD(needed=1)
    assert Point(x=1.0) != Named(x=1.0)


def test_frozen_ones_refuse_changes() -> None:
    point = Point(x=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x


def test_copies_and_pickles_are_equal() -> None:
    named = Named(x=1.0, y=(2.0,), name="q")
    assert copy.deepcopy(named) == named == pickle.loads(pickle.dumps(named))
    assert repr(named) == "Named(x=1.0, y=(2.0,), name='q')"


def test_options_that_are_rare_are_left_to_the_standard_library() -> None:
    @dataclass(order=True)
    class Ordered:
        x: int

    assert Ordered(1) < Ordered(2)

    @dataclass(slots=True, kw_only=True)
    class Open:
        x: int = 1

    changed = Open()
    changed.x = 2
    assert changed == Open(x=2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(changed)
