"""The suite measured on the machine at hand as JSON says it."""

from typing import Any

from sightline.reproduction.arxiv_2311_03687.measured import MeasuredSuite


def suite_to_list(suite: MeasuredSuite) -> list[dict[str, Any]]:
    """Return the suite for ``--json``: a mapping per table, its cells with status, measured and predicted figures."""
    return [
        {
            "table": table.name,
            "title": table.title,
            "cells": [
                {
                    "row": a.cell.row,
                    "column": a.cell.column,
                    "status": a.status,
                    "reason": a.reason,
                    "shimmed": a.shimmed,
                    "measured": {key: a.measured.get(key) for key in table.quantities},
                    "predicted": {key: a.predicted.get(key) for key in table.quantities},
                    "scenario": a.cell.scenario,
                }
                for a in cells
            ],
        }
        for table, cells in suite
    ]
