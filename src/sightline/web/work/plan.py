"""A search of plans."""

from collections.abc import Mapping
from typing import Any, Final

from sightline.progress import Progress
from sightline.web.work import checked, found

OPTIONS: Final = (
    *("objective", "pareto", "top", "max_memory", "launchable", "devices", "deadline", "budget", "ttft", "tpot"),
    *("think_time", "prices", "availability"),
)
"""Arguments of `sightline.plan` that a request may give."""


def work(mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return the best plans."""
    from sightline.loading.input.no_files import without_files
    from sightline.planning.search import plan
    from sightline.report.pages.plans import plan_piece
    from sightline.report.plans.results import answer_to_dict, launches

    given = checked("plan", options, OPTIONS)
    with without_files():
        answer = plan(mapping, **given, progress=progress)
        return found(answer_to_dict(answer, launches(answer)), plan_piece(answer))
