"""Suites of measurements, and how far predictions are from them."""

from sightline.validation.statistics import Answer, Result
from sightline.validation.suite import Case, Suite
from sightline.validation.tables import suites
from sightline.validation.validate import validate

__all__ = ["Answer", "Case", "Result", "Suite", "suites", "validate"]
