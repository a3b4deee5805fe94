"""Explore: studies of hardware and technology, built in and of one's own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sightline.web.downloads import result_files
from sightline.web.fields import completed, groups
from sightline.web.request import Asked, lines
from sightline.web.views import View

if TYPE_CHECKING:
    from sightline.web.jobs import Request

OWN: Final = "own"
"""The word for a study of one's own, which has a scenario and axes."""
AXES: Final = """\
cluster.device.memory_bandwidth: [0.5x, 1x, 2x, 4x]
cluster.device.peak_flops: [1x, 2x, 4x]"""
"""What a study of one's own varies before anybody said so."""
TITLE: Final = "A study of my own"


def job(asked: Asked) -> "Request":
    """Return the study that is asked for; raise `InputError` for mistakes that show before it."""
    from sightline.web.jobs import Request
    from sightline.web.work.explore import check

    options: dict[str, Any] = {"quick": asked.option("quick") != "no"}
    if view := asked.option("view"):
        options["view"] = view
    name = _study(asked)
    mapping = _own(asked) if name == OWN else {"study": name, "set": lines("set", asked.option("set"))}
    check(mapping, options)
    return Request(kind="explore", mapping=mapping, options=options)


def _study(asked: Asked) -> str:
    from sightline.exploration import BUILT_IN

    return asked.option("study") or next(iter(BUILT_IN))


def _own(asked: Asked) -> Mapping[str, Any]:
    """The study that the fields state, as a file of it would."""
    base = Asked(completed(asked.values, groups())).mapping
    named = asked.option("title", TITLE)
    found: dict[str, Any] = {"study": named, "base": base, "axes": lines("axes", asked.option("axes", AXES))}
    for key in ("search", "report"):
        if words := [word.strip() for word in asked.option(key).split(",") if word.strip()]:
            found[key] = words
    for key in ("prices", "electricity"):
        if stated := lines(key, asked.option(key)):
            found[key] = stated
    return found


def context(asked: Asked) -> Mapping[str, Any]:
    """Return the studies to choose from, and the fields of the form."""
    from sightline.exploration import BUILT_IN
    from sightline.exploration.base import VIEWS

    chosen = _study(asked)
    what, workload, plan = groups()
    studies = {**BUILT_IN, OWN: "a study of your own: axes over a scenario"}
    return {
        "studies": studies,
        "chosen": chosen,
        "is_own": chosen == OWN,
        "device_views": (*VIEWS, "both"),
        "axes": asked.option("axes", AXES),
        "title": TITLE,
        "groups": (what, workload, replace(plan, is_open=False)),
    }


VIEW: Final = View(
    name="explore",
    title="Explore",
    about="Make hardware a variable: what a device, memory, network or node would bring, and what binds where.",
    job=job,
    context=context,
    routes=result_files(job, {"study.json": None, "study.csv": "study.csv"}),
    shares_scenario=True,
)
