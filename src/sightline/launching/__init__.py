"""A scenario as the command and the files that launch it in its framework, and such files read back."""

from sightline.launching.launch import Launch, Reading, completed, save, scenario_text, served
from sightline.launching.registry import read, write

__all__ = ["Launch", "Reading", "completed", "read", "save", "scenario_text", "served", "write"]
