"""Suites of measurements, and how far predictions are from them."""

from sightline.validation.operators.suite import OperatorSuite
from sightline.validation.serving import ServingSuite
from sightline.validation.suite import Answer, Case, Result, Suite
from sightline.validation.validate import MeasuredFiles, choose, evaluate, suites, validate, work_of

__all__ = [
    "Answer",
    "Case",
    "MeasuredFiles",
    "OperatorSuite",
    "Result",
    "ServingSuite",
    "Suite",
    "choose",
    "evaluate",
    "suites",
    "validate",
    "work_of",
]
