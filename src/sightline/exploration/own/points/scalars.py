"""Scenarios whose arrays have one element each, with plain numbers in their place."""

from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np

from sightline.content import fields_of


def as_scalars(value: Any) -> Any:
    """Return a description with the only element of each array in its place; whole numbers stay whole."""
    if isinstance(value, np.ndarray):
        number = value.item()
        return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 1e9 else number
    if isinstance(value, Mapping):
        return {key: as_scalars(one) for key, one in value.items()}
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {name: as_scalars(one) for name, one in fields_of(value).items() if _holds_arrays(one)}
    return replace(value, **changed) if changed else value


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, Mapping):
        return any(map(_holds_arrays, value.values()))
    return is_dataclass(value) and any(map(_holds_arrays, fields_of(value).values()))
