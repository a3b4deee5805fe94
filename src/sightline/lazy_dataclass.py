"""`dataclass` as the standard library has it, whose methods are compiled when first called.

The standard decorator compiles six functions for every frozen class, used or not. Sightline describes everything by
such classes: compiling them took half of a short command's time. Here ``__init__``, ``__eq__``, ``__hash__`` and
``__repr__`` are stubs that replace themselves by the compiled function on their first call. Fields, `fields`, `replace`
and pickling are those of the standard library.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - exported by name
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Make a class a dataclass; options that are rare here leave the work to the standard library."""
        if cls is None:
            return lambda made: dataclass(made, **options)
        own = {"__init__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__post_init__"} & cls.__dict__.keys()
        if own or not options.keys() <= {"frozen", "slots", "kw_only", "eq"} or not options.get("kw_only"):
            return dataclasses.dataclass(cls, **options)
        return _lazy(cls, **options)


def _lazy(cls: type, *, frozen: bool = False, slots: bool = False, kw_only: bool = True, eq: bool = True) -> type:
    shown = "__repr__" in cls.__dict__
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    described: Sequence[Field[Any]] = dataclasses.fields(made)
    _compile_late(made, "__init__", lambda: _init(described, frozen))
    if not shown:
        made.__repr__ = _repr
    if eq:
        compared = [f.name for f in described if f.compare]
        _compile_late(made, "__eq__", lambda: _eq(compared))
        if frozen:
            _compile_late(made, "__hash__", lambda: _hash(compared))
        else:
            made.__hash__ = None
    if frozen:
        made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
        if slots:
            made.__getstate__, made.__setstate__ = _state, _set_state
    return made  # type: ignore[no-any-return]


def _compile_late(cls: Any, name: str, compiled: Callable[[], Any]) -> None:
    """Give a class a method that is compiled on its first call."""

    def first(self: Any, *args: Any, **named: Any) -> Any:
        method = compiled()
        method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)
        return method(self, *args, **named)

    setattr(cls, name, first)


def _init(described: Sequence[Field[Any]], frozen: bool) -> Any:
    """Return ``__init__``, which takes the fields by keyword."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    parameters, body = ["self"], []
    taken = [f for f in described if f.init]
    if taken:
        parameters.append("*")
    for f in described:
        value = f.name
        if f.default_factory is not MISSING:
            known[f"_make_{f.name}"] = f.default_factory
            value = f"_make_{f.name}() if {f.name} is _MISSING else {f.name}" if f.init else f"_make_{f.name}()"
        if f.default is not MISSING:
            known[f"_default_{f.name}"] = f.default
            value = f.name if f.init else f"_default_{f.name}"
        elif not f.init and f.default_factory is MISSING:
            continue
        if f.init:
            default = f"_default_{f.name}" if f.default is not MISSING else "_MISSING"
            needed = f.default is MISSING and f.default_factory is MISSING
            parameters.append(f.name if needed else f"{f.name}={default}")
        body.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    return _function(parameters, body or ["pass"], known)


def _eq(names: Sequence[str]) -> Any:
    mine, others = (_tuple(of, names) for of in ("self", "other"))
    body = ["if other.__class__ is self.__class__:", f"    return {mine} == {others}", "return NotImplemented"]
    return _function(["self", "other"], body, {})


def _hash(names: Sequence[str]) -> Any:
    return _function(["self"], [f"return hash({_tuple('self', names)})"], {})


def _tuple(of: str, names: Sequence[str]) -> str:
    return f"({''.join(f'{of}.{name},' for name in names)})"


def _function(parameters: Sequence[str], body: Sequence[str], known: dict[str, Any]) -> Any:
    lines = "".join(f"    {line}\n" for line in body)
    exec(f"def made({', '.join(parameters)}):\n{lines}", known)  # noqa: S102 - names of fields, as dataclasses do it
    return known["made"]


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_to_set(_: Any, name: str, __: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _set_state(self: Any, state: Sequence[Any]) -> None:
    for f, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
