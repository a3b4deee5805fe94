"""Addresses of what an answer leads to."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode

if TYPE_CHECKING:
    from sightline.explanation.answer import Advice


def with_change(stated: Mapping[str, str]) -> "Callable[[Advice], str]":
    """Return what links advice to the prediction of a scenario with the change; empty for one that is none of it."""
    from sightline.loading.sources import as_text

    def link(advice: "Advice") -> str:
        changed = {key: as_text(value) for key, value in advice.set.items()}
        return f"/predict?{urlencode({**stated, **changed})}" if changed else ""

    return link
