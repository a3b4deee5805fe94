"""Predictions against published and measured results: the suites of the catalog, or one of them with its cases."""

from collections.abc import Mapping
from typing import Any

from sightline.progress import Progress
from sightline.web.work import checked, found


def work(mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return the errors of the suites; ``mapping`` is ``{suite: NAME}``, or empty for all of them."""
    from sightline.answers.validation import validation_outline
    from sightline.render.html import outline_piece
    from sightline.validation import choose, evaluate
    from sightline.validation.suite import results_to_dict

    checked("validate", options, ())
    suite = mapping.get("suite")
    results = evaluate(choose(suite), progress=progress)
    piece = outline_piece(validation_outline(results, cases=suite is not None), title_level=2)
    return found(results_to_dict(results, cases=suite is not None), piece)
