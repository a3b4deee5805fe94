"""A reproduced source as JSON says it."""

from typing import Any

from sightline.profile.results import stamped
from sightline.quantities import as_json
from sightline.reproduction.answer import ReproducedTable, Reproduction
from sightline.reproduction.outcome import Outcome


def reproduction_to_dict(answer: Reproduction) -> dict[str, Any]:
    """Return the documented keys of a source's reproduction."""
    return stamped(
        {
            "source": answer.source,
            "title": answer.title,
            "cited": answer.cited,
            "findings": [_finding(one, answer) for one in answer.outcomes],
            "summary": as_json(answer.summary),
            "together": {
                "of": len(answer.outcomes),
                "reproduced": len(answer.together),
                "lost": list(answer.lost),
                "choices": dict(answer.choices),
            },
            "tables": [_table(one) for one in answer.tables],
            "assumptions": list(answer.assumptions),
            "warnings": list(answer.warnings),
        }
    )


def _finding(outcome: Outcome, answer: Reproduction) -> dict[str, Any]:
    finding, judged = outcome.finding, outcome.judged
    found: dict[str, Any] = as_json(
        {
            "id": finding.id,
            "finding": finding.finding,
            "source": answer.source,
            "criterion": finding.criterion,
            "low": finding.low,
            "high": finding.high,
            "interpretation": outcome.words_of(judged),
            "expected": finding.expected,
            "ours": outcome.ours,
            "reproduced": outcome.reproduced,
            "reproduced_together": finding.id in answer.together,
            "reason": outcome.reason,
            "interpretations": [
                {
                    "interpretation": outcome.words_of(one),
                    "choices": dict(one.choices),
                    "values": list(one.values),
                    "ours": outcome.ours_of(one),
                    "reproduced": outcome.holds(one),
                    "sentence": one.sentence,
                }
                for one in outcome.interpretations
            ],
        }
    )
    return found


def _table(one: ReproducedTable) -> dict[str, Any]:
    return {
        "id": one.id,
        "title": one.answer.title,
        "status": one.status,
        "columns": list(one.answer.columns),
        "rows": [as_json(row) for row in one.answer.rows],
        "reading": list(one.answer.reading),
        "assumptions": list(one.answer.assumptions),
    }
