"""How many published measurements use a technique or a feature: counted by a script, and shipped with the catalog."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from sightline.catalog import entry
from sightline.validation.coverage.cell import Published
from sightline.validation.coverage.choice import Choice

KINDS: Mapping[str, str] = {"techniques": "training", "features": "generation"}
"""Kinds of catalog entries that hold the counts."""
NAME = "published_plans"


def published(of: Literal["techniques", "features"], name: str) -> Callable[[str], Published]:
    """Return what looks up a choice's count under a framework's lineage or an engine; zero where there is none."""
    counts: Mapping[str, Any] = entry(KINDS[of], NAME)["counts"].get(name, {})
    return lambda choice: Published(**counts.get(choice, {}))


def counted(choices: Iterable[Choice], cases: Iterable[tuple[str, str, Any]]) -> dict[str, Any]:
    """Return cases and sources of each choice, by framework or engine; ``cases`` are (of, source, scenario)."""
    found: dict[str, dict[str, list[str]]] = {}
    known = list(choices)
    for of, source, scenario in cases:
        for choice in known:
            if choice.is_of(scenario):
                found.setdefault(of, {}).setdefault(choice.name, []).append(source)
    return {
        of: {name: {"cases": len(all_of), "sources": len(set(all_of))} for name, all_of in by.items()}
        for of, by in sorted(found.items())
    }
