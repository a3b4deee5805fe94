"""What a job is asked, and how far it is."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

from sightline.errors import InputError
from sightline.web.problems import document

State: TypeAlias = Literal["waiting", "running", "stopping", "done", "failed", "cancelled", "interrupted"]
OF_FILES: Final = ("trace",)
"""Kinds that need a file, which is sent with the request."""
ENDED: Final = ("done", "failed", "cancelled", "interrupted")
KINDS: Final = ("plan", "simulate", "explore", "validate", "trace")
"""Modules of `sightline.web.work`, each with a function ``work``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Long work that is asked for: a scenario or study as a mapping, and options. Equal requests are one job."""

    kind: str
    mapping: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """A name made of the content and of this release, whose answers may differ from those of another."""
        from sightline import __version__

        content = [__version__, self.kind, self.mapping, self.options]
        try:
            text = json.dumps(content, sort_keys=True, default=str)
        except (TypeError, ValueError, RecursionError):
            raise InputError("the scenario is not one of plain values: texts, numbers, lists and mappings") from None
        return sha256(text.encode()).hexdigest()[:20]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"kind": self.kind, "mapping": self.mapping, "options": self.options}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """How far work is."""

    id: str
    kind: str
    state: State = "waiting"
    what: str = ""
    """The stage at hand."""
    done: int = 0
    total: int | None = None
    problems: Sequence[str] = ()
    """Why it failed, a sentence for each mistake."""
    attempt: int = 0
    """Counts how often this server began it: what an ended attempt still says is not heard."""
    was_refused: bool = False
    """Whether the request was wrong, and not the work."""

    @property
    def ended(self) -> bool:
        """Whether nothing more happens."""
        return self.state in ENDED

    def to_dict(self) -> dict[str, Any]:
        """Return it as the interface for programs shows it."""
        found: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "state": self.state,
            "progress": {"what": self.what, "done": self.done, "total": self.total},
        }
        return found | (document(self.problems) if self.problems else {})

    def changed(self, **values: Any) -> "Job":
        """Return it with other values."""
        return replace(self, **values)
