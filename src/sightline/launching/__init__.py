"""A scenario as the command and the files that launch it in its framework, and such files read back."""

from typing import TYPE_CHECKING

from sightline.launching.launch import Launch, Reading
from sightline.launching.registry import read, write
from sightline.on_demand import names_on_demand

if TYPE_CHECKING:
    from sightline.launching.saving import save
    from sightline.launching.scenario_file import completed, scenario_text
else:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {"sightline.launching.saving": "save", "sightline.launching.scenario_file": "completed scenario_text"},
    )

__all__ = ["Launch", "Reading", "completed", "read", "save", "scenario_text", "write"]
