"""Descriptions, and keys by content: what lets a result be remembered for descriptions that say the same.

Descriptions are frozen data classes that may hold mappings and arrays. Their key is made of their fields, once for
each object: one that was seen before is known by its identity, so that a sweep that changes one field of a plan
compares only the plan. So that what is known stays true, descriptions hold their mappings read-only.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields, is_dataclass
from functools import cache, wraps
from marshal import dumps
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, cast, dataclass_transform

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

KNOWN_OBJECTS = 4096
"""Objects whose keys are held, with the objects themselves, so that no other takes their identity."""
_ATOMS = frozenset((str, int, float, bool, type(None), np.float64, np.bool_, frozenset))


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(field,))
def record(kind: type[T]) -> type[T]:
    """Make a class a data class of which a prediction makes many objects, known by identity.

    Type checkers hold it frozen. Python itself does not: objects that it freezes take three times as long to make.
    """
    return _data_class(kind, "self.{0} = {0}")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def description(kind: type[T]) -> type[T]:
    """Make a class a frozen data class that is compared by its fields, as ``dataclass`` does with these options.

    Its constructor is compiled when the first object is made: a command imports many classes that it makes none of.
    """
    made: Any = _data_class(kind, "set_{0}(self, {0})")
    made.__eq__, made.__hash__ = _equals, _hash
    made.__setattr__ = made.__delattr__ = _refuse_change
    made.__getstate__, made.__setstate__ = _state, _set_state
    return cast(type[T], made)


def _data_class(kind: type[T], assignment: str) -> type[T]:
    """A data class whose constructor, which assigns a field like this, is compiled when it is first called."""
    made: Any = dataclass(init=False, repr=False, eq=False, match_args=False, slots=True, kw_only=True)(kind)

    def first(self: Any, **values: Any) -> None:
        made.__init__ = _constructor(made, assignment)
        made.__init__(self, **values)

    made.__init__ = first
    if "__repr__" not in kind.__dict__:
        made.__repr__ = _repr
    return cast(type[T], made)


def _constructor(kind: Any, assignment: str) -> Callable[..., None]:
    """The constructor of a data class that takes its fields by name."""
    names: dict[str, Any] = {f"set_{name}": getattr(kind, name).__set__ for name in _names(kind)}
    parameters, lines = ["self", "*"], []
    for item in fields(kind):
        names[f"default_{item.name}"], names[f"make_{item.name}"] = item.default, item.default_factory
        required = item.default is MISSING and item.default_factory is MISSING
        parameters.append(item.name if required else f"{item.name}=default_{item.name}")
        if item.default_factory is not MISSING:
            lines.append(f"if {item.name} is default_{item.name}: {item.name} = make_{item.name}()")
        lines.append(assignment.format(item.name))
    lines += ["self.__post_init__()"] if hasattr(kind, "__post_init__") else []
    source = "\n ".join((f"def __init__({', '.join(parameters)}):", *lines))
    exec(source, names)  # noqa: S102 - names of fields alone, as ``dataclass`` does
    constructor: Callable[..., None] = names["__init__"]
    constructor.__qualname__ = f"{kind.__qualname__}.__init__"
    return constructor


def _repr(self: Any) -> str:
    shown = (f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _equals(self: Any, other: object) -> Any:
    return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _compared(self: Any) -> tuple[Any, ...]:
    kind: Any = type(self)
    return tuple([getattr(self, name) for name in _fields(kind)])


def _refuse_change(_: object, name: str, *__: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot change the field {name!r} of a description")


def _state(self: Any) -> list[Any]:
    return list(fields_of(self).values())


def _set_state(self: Any, state: Iterable[Any]) -> None:
    kind: Any = type(self)
    for name, value in zip(_names(kind), state, strict=True):
        object.__setattr__(self, name, value)


def fields_of(description: Any) -> dict[str, Any]:
    """Return the fields of a data class by name, as they are."""
    kind: Any = type(description)
    return {name: getattr(description, name) for name in _names(kind)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


class FixedMapping(dict[K, V]):
    """A dictionary that nobody can change."""

    def __init__(self, values: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Copy the values, and those that are dictionaries too."""
        items: Any = dict(values).items()
        fixed: dict[K, Any] = {name: FixedMapping(x) if type(x) is dict else x for name, x in items}
        super().__init__(fixed)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a description cannot be changed: make another with dataclasses.replace")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FixedMapping, (dict(self),)


def fix_mappings(description: Any) -> None:
    """Put read-only copies in the place of the mappings of a new data class."""
    kind: Any = type(description)
    for name in _mappings(kind):
        value = getattr(description, name)
        if value is not None and type(value) is not FixedMapping:
            object.__setattr__(description, name, FixedMapping(value))


@cache
def _mappings(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if "Mapping[" in str(field.type))


class LargeArrayError(Exception):
    """A description holds an array that is too large to be remembered."""


class Key:
    """The content of an object, whose hash is computed once."""

    __slots__ = ("_hash", "parts")

    def __init__(self, parts: tuple[Hashable, ...]) -> None:
        """Hold the parts and their hash."""
        self.parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        """Return the hash of the parts."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Whether the other key has equal parts."""
        return self is other or (isinstance(other, Key) and self._hash == other._hash and self.parts == other.parts)


_known: OrderedDict[int, tuple[object, Key]] = OrderedDict()


def content(value: object, largest_array: int) -> Hashable:
    """Return the key of a value.

    Raises LargeArrayError for one with an array of more elements than ``largest_array``.
    """
    kind: Any = type(value)
    if kind in _ATOMS:
        return value
    if _is_description(kind):
        return _of_object(value, largest_array)
    if isinstance(value, np.ndarray):
        if value.size > largest_array:
            raise LargeArrayError
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, tuple | list):
        return _contents(value, largest_array)
    if isinstance(value, Mapping):
        return tuple((name, content(x, largest_array)) for name, x in value.items())
    return value


def _contents(values: Iterable[object], largest_array: int) -> tuple[Hashable, ...]:
    return tuple([x if type(x) in _ATOMS else content(x, largest_array) for x in values])


@cache
def _is_description(kind: Any) -> bool:
    return is_dataclass(kind)


def _of_object(value: Any, largest_array: int) -> Key:
    found = _known.get(id(value))
    if found is not None and found[0] is value:
        return found[1]
    kind: Any = type(value)
    key = Key((kind, *_contents([getattr(value, name) for name in _fields(kind)], largest_array)))
    if largest_array == 0:  # what holds arrays may change
        _known[id(value)] = (value, key)
        if len(_known) > KNOWN_OBJECTS:
            _known.popitem(last=False)
    return key


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.compare)


_clear: list[tuple[str, Callable[[], None]]] = [("keys", _known.clear)]


class Results(Generic[R]):
    """Results by content, of which those used last are kept; `forget` empties them by their kind."""

    def __init__(self, entries: int, kind: str) -> None:
        """Keep so many results."""
        self._entries = entries
        self._results: OrderedDict[Hashable, R] = OrderedDict()
        _clear.append((kind, self._results.clear))

    def get(self, key: Hashable) -> R | None:
        """Return the result of a key, or None for one that is unknown."""
        result = self._results.get(key)
        if result is not None:
            self._results.move_to_end(key)
        return result

    def put(self, key: Hashable, result: R) -> None:
        """Keep the result of a key."""
        self._results[key] = result
        if len(self._results) > self._entries:
            self._results.popitem(last=False)


def remembered(
    entries: int, *, largest_array: int = 0, kind: str = "constants", as_written: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Remember a function's results by the content of its arguments, of which the ``entries`` used last are kept.

    Arguments that hold larger arrays than ``largest_array`` elements are computed anew each time. `forget` empties
    caches by their ``kind``. ``as_written`` is for mappings of a file, in which 1, 1.0 and true differ.
    """

    def of(function: Callable[P, R]) -> Callable[P, R]:
        results: Results[R] = Results(entries, kind)

        @wraps(function)
        def answer(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                key = dumps(cast(Any, (args, kwargs))) if as_written else content((args, kwargs), largest_array)
            except (LargeArrayError, ValueError):  # arrays, and what no file holds
                return function(*args, **kwargs)
            result = results.get(key)
            if result is None:
                result = function(*args, **kwargs)
                results.put(key, result)
            return result

        return answer

    return of


def forget(kind: str | None = None) -> None:
    """Empty every cache by content, or those of one kind."""
    for name, clear in _clear:
        if kind in (None, name):
            clear()


def flatten(mapping: Mapping[str, Any], prefix: str = "", separator: str = ".") -> dict[str, Any]:
    """Return nested mappings as one level of keys, joined by the separator; lists of plain values stay as they are."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        if type(value) not in _ATOMS and isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}{separator}", separator)
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key, in the order in which keys come first."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def sums(pairs: Iterable[tuple[K, float]]) -> dict[K, float]:
    """Return the sum of the numbers of each key, in the order in which keys come first."""
    return {key: sum(numbers) for key, numbers in grouped(pairs).items()}
