"""What a shell offers after the Tab key: names of the catalog, keys of scenarios, results to sort by.

Everything is imported when a shell asks, so that commands start as fast as without it.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

from sightline.on_demand import named

ASKED = "_SIGHTLINE_COMPLETE"
"""Environment variable that a shell sets when it asks for completions."""
_LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Those in which shells hand over the line."""


def is_asked() -> bool:
    """Return whether a shell asks for completions."""
    return ASKED in os.environ


def typed_command() -> str:
    """Return the first word after the program's name of the line that a shell asks about."""
    words = next((os.environ[name].split() for name in _LINES if os.environ.get(name)), [])
    return words[1] if len(words) > 1 else ""


def _of(path: str) -> Callable[[str], list[str]]:
    """Return what completes the names that ``package.module:name`` holds."""
    return lambda incomplete: _beginning(incomplete, named(path))


kinds = _of("sightline.catalog:KINDS")
studies = _of("sightline.exploration:BUILT_IN")
sources = _of("sightline.reproduction.reproduce:SOURCES")


def names(ctx: Any, incomplete: str) -> list[str]:
    """Return names of entries of the kind that was typed before."""
    from sightline import catalog

    kind = str(ctx.params.get("kind") or "")
    known = next((k for k in catalog.KINDS if kind in (k, catalog.singular(k))), None)
    return [] if known is None else _beginning(incomplete, catalog.names(known))


def devices(incomplete: str) -> list[str]:
    """Return devices, also after others and a comma."""
    from sightline import catalog

    return _last_of(incomplete, catalog.names("devices"))


def suites(incomplete: str) -> list[str]:
    """Return suites of published results."""
    from sightline import catalog

    return _beginning(incomplete, catalog.names("published"))


def examples(incomplete: str) -> list[str]:
    """Return examples that come with Sightline."""
    from sightline.folders import example_files

    return _beginning(incomplete, example_files())


def keys(incomplete: str) -> list[str]:
    """Return keys of scenarios, each with the equals sign before its value."""
    from sightline.loading.clusters.cluster import CLUSTER
    from sightline.loading.generation import GENERATE
    from sightline.loading.plans import plan_keys
    from sightline.loading.serving import SERVE
    from sightline.loading.training import WORKLOAD

    parts = {"plan": plan_keys(), "workload": {**WORKLOAD, **GENERATE, **SERVE}, "cluster": CLUSTER}
    found = [f"{part}.{key}" for part, known in parts.items() for key in known]
    return _beginning(incomplete, [f"{key}=" for key in ("model", "cluster", *found)])


def requirements(incomplete: str) -> list[str]:
    """Return figures that may be required, also after others and a comma."""
    from sightline.requirements.expression import names as figures

    return _last_of(incomplete, figures())


def results(incomplete: str) -> list[str]:
    """Return results that answers are sorted by."""
    from sightline.answers.several import AS_ASKED
    from sightline.profile import TASKS

    metrics = (key for task in TASKS for key, metric in task.figures.items() if metric.unit != "word")
    return _beginning(incomplete, [AS_ASKED, *dict.fromkeys(metrics), "memory_bytes.total"])


def _last_of(incomplete: str, words: Iterable[str]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{word}" for word in _beginning(last, words)]


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
