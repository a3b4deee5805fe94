"""Names that are loaded when they are first used, so that a command starts with what it needs."""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any


def names_on_demand(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package (PEP 562); ``homes`` lists what each module defines.

    Type checkers and editors see the imports that the package states under ``TYPE_CHECKING``, and all see its
    ``__all__``.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def loaded(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        there = vars(sys.modules[package])
        return sorted({*there["__all__"], *(name for name in there if name.startswith("__"))})

    return loaded, listed


@cache
def named(path: str) -> Any:
    """Return what ``package.module:name`` or ``:Class.method`` names; the module is imported when first asked for."""
    module, _, name = path.partition(":")
    return attrgetter(name)(import_module(module))
