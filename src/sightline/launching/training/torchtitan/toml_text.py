"""A mapping of tables as the text of a TOML file; Python reads such files and writes none."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def toml_text(tables: Mapping[str, Any]) -> str:
    """Return tables of words, numbers, truth values and lists of them, and tables in tables, as TOML."""
    return "\n".join(_lines(tables, "")).strip() + "\n"


def _lines(table: Mapping[str, Any], name: str) -> Iterator[str]:
    own = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if own and name:
        yield f"[{name}]"
    for key, value in own.items():
        # What JSON writes of these is TOML too.
        yield f"{key} = {json.dumps(value)}"
    if own:
        yield ""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _lines(value, f"{name}.{key}" if name else key)
