"""What somebody requires of an answer before a job starts, and whether a prediction meets it."""

from sightline.requirements.check import Checked, check
from sightline.requirements.verdict import Judged

__all__ = ["Checked", "Judged", "check"]
