"""Watch: jobs that train, seen while they run: step by step against the prediction, with what they departed from."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from sightline.errors import InputError
from sightline.web.request import Asked
from sightline.web.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sightline.answers.outline import Link
    from sightline.render.html import Piece
    from sightline.watching import WatchRecord

JOB: Final = "job"
"""The field: the id of a watch, or ``latest``."""


def answer(asked: Asked) -> "Piece":
    """Return the list of jobs, or the one that is asked for."""
    from sightline.answers.watched import watch_outline, watches_outline
    from sightline.render.html import outline_piece
    from sightline.runs import open_store
    from sightline.watching import read

    if JOB in asked.values:
        one = _found(asked)
        return outline_piece(watch_outline(one, list(_links(one))), title_level=2)
    store = open_store()
    return outline_piece(watches_outline(read(store), store.place, lambda name: f"/watch?{urlencode({JOB: name})}"))


def _found(asked: Asked) -> "WatchRecord":
    from sightline.watching import read_one

    try:
        return read_one(asked.option(JOB))
    except InputError as error:
        raise InputError([f"{JOB}: {problem}" for problem in error.problems]) from None


def _links(one: "WatchRecord") -> "Iterator[Link]":
    """What leads on from a job."""
    from sightline.answers.outline import Link

    yield Link("All jobs", "/watch")
    if one.run.status == "ok":
        yield Link("Its run", f"/runs?{urlencode({'run': one.id})}")


def form(asked: Asked) -> Mapping[str, Any]:
    """Say whether the answer changes by itself."""
    is_live = JOB not in asked.values or _found(asked).is_running
    return {"live": is_live}


VIEW: Final = View(
    name="watch",
    title="Watch",
    about="Jobs that were or are being watched: what a step takes, what was predicted, and what to change.",
    answer=answer,
    form=form,
)
