"""Answers as media show them."""

import io

from rich.console import Console

from sightline.answers.outline import Outline
from sightline.answers.several import profiles_outline
from sightline.render.document import outline_page
from sightline.render.terminal import outline_text


def text(outline, width=80, **given):
    """Return what a terminal of some width shows, without colors."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(outline_text(outline, **given) if isinstance(outline, Outline) else outline)
    return console.file.getvalue()


def profiles_page(profiles, cells=(), **given):
    """Return the page of one profile or of several."""
    command = given.pop("command", "")
    return outline_page(profiles_outline(profiles, cells, **given), command=command)


def profile_text(profile, width=80):
    """Return what a terminal shows of one profile."""
    return text(profiles_outline([profile]), width)
