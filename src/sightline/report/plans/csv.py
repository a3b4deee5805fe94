"""The answer of a search of plans as CSV."""

from sightline.planning.answer import PlanAnswer
from sightline.report.csv_lines import csv_text, line_of


def plans_to_csv(answer: PlanAnswer) -> str:
    """Return a line per plan: its place, its scenario and its results under dotted keys."""
    return csv_text(
        [
            {
                "rank": one.rank,
                "tied": str(one.tied).lower(),
                "better": one.better,
                "launchable": str(one.launchable).lower(),
                "tight": str(one.profile.tight).lower(),
                "pareto": str(position in answer.pareto).lower(),
                **line_of(one.profile),
                **one.figures,
            }
            for position, one in enumerate(answer.plans)
        ]
    )
