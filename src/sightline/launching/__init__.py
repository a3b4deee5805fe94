"""A scenario as the command and the files that launch it in its framework, and such files read back."""

from sightline.launching.launch import Launch, Reading, at_rate, completed, save, scenario_text
from sightline.launching.registry import read, write

__all__ = ["Launch", "Reading", "at_rate", "completed", "read", "save", "scenario_text", "write"]
