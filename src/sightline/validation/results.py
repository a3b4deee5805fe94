"""Errors of predictions as JSON says them."""

from collections.abc import Sequence
from typing import Any

from sightline.profile.results import stamped
from sightline.validation.suite import Answer, Result


def results_to_dict(results: Sequence[Result], *, cases: bool = False) -> dict[str, Any]:
    """Return the results under the documented keys, on request with every case."""
    suites = [
        result.to_dict() | ({"answers": [_answer_to_dict(a) for a in result.answers]} if cases else {})
        for result in results
    ]
    return stamped({"suites": suites})


def _answer_to_dict(answer: Answer) -> dict[str, Any]:
    case, predicted = answer.case, answer.predicted
    said = {"scenario": case.scenario, "measured": case.measured, "predicted": predicted}
    return {**said, "error": None if predicted is None else answer.error, "reason": answer.reason}
