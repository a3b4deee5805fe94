"""The views of the page, one module each. A view turns what an address asks into a piece of HTML with its charts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sightline.web.request import Asked

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from sightline.render.html import Piece
    from sightline.web.jobs import Request

LISTED: Final = ("predict", "explain", "plan", "serve", "explore", "runs", "watch", "validate", "catalog")
"""Modules of this package with a ``VIEW``, in the order of the navigation; those that are not there are left out."""


def _nothing(_: Asked) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One page of the page.

    Its template is ``NAME.html``, which extends ``base.html``; without one ``view.html`` shows title, text and answer.
    """

    name: str
    """First part of its address."""
    title: str
    about: str
    """One sentence below the title."""
    answer: Callable[[Asked], "Piece"] | None = None
    """What is shown for what an address asks. Runs in a thread. Raises `InputError` for mistakes, which are shown next
    to the fields that they name."""
    job: Callable[[Asked], "Request | None"] | None = None
    """The long work that is asked for, if any. The page shows how far it is, then what it found, below the answer of a
    view that has both."""
    context: Callable[[Asked], Mapping[str, Any]] = _nothing
    """Further values of the template."""
    form: Callable[[Asked], Mapping[str, Any]] = _nothing
    """What the script tells the form after each answer: ``{"resolved": {key: text}, "offers": {key: [text]}}``."""
    routes: Sequence["BaseRoute"] = field(default=())
    """Further addresses, below its own."""
    shares_scenario: bool = False
    """Whether it asks about the scenario that other views show too, so that links take it along."""
    start: Mapping[str, str] | None = None
    """The scenario that is shown before anybody asked, if it is another than that of all views."""
    takes_of_plan: tuple[str, ...] | None = None
    """Keys of the plan that links to it take along; None for all. A search leaves the others free."""

    tasks: tuple[str, ...] = ()
    """Those that it answers; links to it take only the model and the cluster of others along. Empty for all."""

    def takes(self, key: str, task: str = "") -> bool:
        """Whether links to it take a key of a scenario of a task along."""
        if task and self.tasks and task not in self.tasks:
            return key.partition(".")[0] in ("model", "cluster", "config")
        return self.takes_of_plan is None or not key.startswith("plan.") or key in self.takes_of_plan


def views() -> list[View]:
    """Return the views that are there."""
    there = {path.stem for path in Path(__file__).parent.glob("*.py")}
    return [import_module(f"{__name__}.{name}").VIEW for name in LISTED if name in there]
