"""Reproduce: the findings of a source, each with our number and whether it meets the source's criterion."""

from collections.abc import Mapping
from typing import Any, Final

from sightline import catalog
from sightline.answers.outline import Link
from sightline.progress import Progress
from sightline.render import html
from sightline.render.html import Piece, outline_piece
from sightline.reproduction.reproduce import SOURCES, chosen_of
from sightline.web.jobs import Request
from sightline.web.request import Asked
from sightline.web.views import View, Work, found

SOURCE: Final = "source"


def choose(_: Asked) -> Piece:
    """Return the sources to choose from."""
    titles = {name: catalog.entry("findings", name)["title"] for name in SOURCES}
    return Piece(
        html=html.buttons(Link(f"{name}: {title}", f"/reproduce?{SOURCE}={name}") for name, title in titles.items())
    )


def job(asked: Asked) -> Request | None:
    """Return the reproduction that is asked for, if any; raise `InputError` for a source that there is none of."""
    if not (source := asked.option(SOURCE)):
        return None
    chosen_of(source)
    return Request(kind="reproduce", mapping={SOURCE: source})


def reproduce_source(mapping: Mapping[str, Any], _: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return the findings of ``{source: NAME}``, in the small form that takes a minute."""
    from sightline.answers.reproduction import reproduced_outline
    from sightline.reproduction.outcomes import reproduction_to_dict
    from sightline.reproduction.reproduce import reproduce

    answer = reproduce(mapping[SOURCE], small=True, progress=progress)
    return found(reproduction_to_dict(answer), outline_piece(reproduced_outline(answer), title_level=2))


WORK: Final = Work(reproduce_source)
VIEW: Final = View(
    name="reproduce",
    title="Reproduce",
    about="Findings of published studies, with smaller loads; the command line computes them in full.",
    answer=choose,
    job=job,
    is_further=True,
)
