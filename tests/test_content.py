"""Results are remembered by what their arguments say, and not for ever."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.content import LargeArrayError, Results, content, forget, remembered


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Described:
    number: Any = 1.0
    numbers: dict[str, Any] = field(default_factory=dict)


VALUES = st.one_of(st.floats(allow_nan=False), st.text(max_size=3), st.lists(st.integers(), max_size=3).map(np.array))


@given(one=VALUES, other=VALUES)
def test_keys_are_equal_where_contents_are(one, other):
    keys = [content(Described(number=x, numbers={"a": x}), 10) for x in (one, other, one)]
    assert keys[0] == keys[2]
    assert hash(keys[0]) == hash(keys[2])
    same = np.array_equal(one, other) and np.asarray(one).dtype == np.asarray(other).dtype
    assert (keys[0] == keys[1]) == same


def test_large_arrays_have_no_key():
    described = Described(number=np.ones(3))
    assert content(described, 3) == content(Described(number=np.ones(3)), 3)
    with pytest.raises(LargeArrayError):
        content(described, 2)


def test_what_was_used_last_is_kept():
    held: Results[str] = Results(entries=2, kind="test")
    for name in "ab":
        held.put(name, name)
    held.get("a")
    held.put("c", "c")
    assert [held.get(name) for name in "abc"] == ["a", None, "c"]
    forget("test")
    assert held.get("a") is None


def test_a_function_is_called_once_for_arguments_that_say_the_same():
    calls = []

    @remembered(entries=4, kind="test")
    def double(x: Described) -> float:
        calls.append(x)
        return 2.0 * x.number

    assert double(Described(number=2.0)) == double(Described(number=2.0)) == 4.0
    assert len(calls) == 1
    assert double(Described(number=np.ones(2))) is not double(Described(number=np.ones(2)))
    assert len(calls) == 3
