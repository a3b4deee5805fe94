"""What is covered: for each device and operator, framework and technique, engine and feature what a prediction says.

A cell is the answer to a small scenario, or its refusal: nothing is listed by hand that the catalog or a type lists.
"""

from sightline.validation.coverage.cell import STATUSES, Cell, Status
from sightline.validation.coverage.matrix import coverage, subjects

__all__ = ["STATUSES", "Cell", "Status", "coverage", "subjects"]
