"""How a study is asked for: its size, the view of devices, and what differs from the study as it is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from sightline.content import fix_mappings
from sightline.exploration.answer import View
from sightline.progress import SILENT, Progress

Views = Literal["ideal", "calibrated", "both"]
"""Which views of devices a study answers for."""
VIEWS: tuple[View, ...] = get_args(View)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyRequest:
    """What a study is asked; every field has the default of ``sightline explore STUDY``."""

    quick: bool = False
    """A small version of the study, a second's work: fewer values of each axis, small simulations, the same columns."""
    view: Views | None = None
    """Which view of devices, None for the study's own."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Values of ``--set``, by dotted key of the study's base scenario; what a study varies itself is not overridden."""
    progress: Progress = SILENT
    """Is told how far the study is, and may stop it: call ``check`` where it can stop."""

    def __post_init__(self) -> None:
        fix_mappings(self)

    def views(self, default: Views) -> tuple[View, ...]:
        """Return the views that are asked for, those of ``default`` where none is named."""
        asked = self.view or default
        return VIEWS if asked == "both" else (asked,)
