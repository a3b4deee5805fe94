"""A search of plans."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from sightline.errors import InputError
from sightline.progress import Progress
from sightline.web.work import checked, found

if TYPE_CHECKING:
    from sightline.planning.plan_answer import PlanAnswer

OPTIONS: Final = (
    *("objective", "pareto", "top", "max_memory", "launchable", "devices", "deadline", "budget", "ttft", "tpot"),
    *("think_time", "prices", "availability"),
)
"""Arguments of `sightline.plan` that a request may give."""
MOST_TOP: Final = 50
"""Plans of an answer."""
MOST_SPACES: Final = 64
"""Questions that restricted fields outside of the mesh may stand for."""


def work(mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return the best plans."""
    from sightline.answers.best_plans import plan_outline
    from sightline.loading.sources import without_files
    from sightline.planning.plan_answer import launches, plans_to_dict
    from sightline.planning.search import plan
    from sightline.render.csv import plans_to_csv
    from sightline.render.html import outline_piece

    given = checked("plan", options, OPTIONS)
    check(mapping, given)
    with without_files():
        answer = plan(mapping, **given, progress=progress)
        addresses, tries = _addresses(answer, mapping), _tries(answer, mapping, given)
        piece = outline_piece(plan_outline(answer, addresses=addresses, tries=tries))
        document = plans_to_dict(answer, launches(answer))
        return {**found(document, piece), "files": {"plans.csv": plans_to_csv(answer) if answer.plans else ""}}


def check(mapping: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise `InputError` with the mistakes that are found before the search."""
    from sightline.loading.sources import without_files
    from sightline.planning.request_spaces import check_request

    top = options.get("top")
    if top is not None and (not isinstance(top, int) or isinstance(top, bool) or not 1 <= top <= MOST_TOP):
        raise InputError(f"top is {top}; allowed: a whole number from 1 to {MOST_TOP}")
    with without_files():
        check_request(mapping, options, most=MOST_SPACES)


def _addresses(answer: "PlanAnswer", mapping: Mapping[str, Any]) -> Mapping[int, str]:
    """The page of each plan's prediction, or of its load."""
    from sightline.answers.plan_sentences import asked_alone

    view = "serve" if answer.plans and answer.plans[0].profile.task.name == "serving" else "predict"
    return {one.rank: f"/{view}?{_query(asked_alone(answer, one, mapping))}" for one in answer.plans}


def _tries(answer: "PlanAnswer", mapping: Mapping[str, Any], options: Mapping[str, Any]) -> Sequence[str]:
    """The search that finds each of the nearest plans."""
    from sightline.answers.labels import asked_with

    def address(settings: Mapping[str, Any]) -> str:
        of_scenario = {key: value for key, value in settings.items() if key.replace("-", "_") not in OPTIONS}
        limits = {key.replace("-", "_"): value for key, value in settings.items() if key not in of_scenario}
        asked = {} if "cluster" not in of_scenario else {"devices": ""}
        stated = {**_as_fields(options), **asked, **limits}
        return f"/plan?{_query({**asked_with(mapping, of_scenario), **stated})}"

    return [address(one.set) for one in answer.nearest]


def _as_fields(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options as the fields of the page's form."""
    fields = {key: ", ".join(map(str, value)) if isinstance(value, list) else value for key, value in options.items()}
    fields["price"] = fields.pop("prices", None)
    fields["launchable"] = "yes" if options.get("launchable") else "no"
    return fields


def _query(values: Mapping[str, Any]) -> str:
    from sightline.loading.sources import as_text
    from sightline.web.request import CONFIG

    model = values.get("model")
    stated = {key: as_text(value) for key, value in values.items() if key != "model" and value not in (None, "")}
    named = {CONFIG: json.dumps(model)} if isinstance(model, Mapping) else {"model": str(model)}
    return urlencode({**named, **stated})
