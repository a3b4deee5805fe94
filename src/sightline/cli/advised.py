"""What the reports of an answer advise."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.cli.progress_bar import progress_bar

if TYPE_CHECKING:
    from sightline.explanation.answer import Advice
    from sightline.prediction.anchoring import Anchored
    from sightline.profile import Profile


def changes_of(answers: "Sequence[Profile]", words: Sequence[str], known: "Anchored | None") -> "list[Advice]":
    """Return what would help the only answer most; ``words`` asked for it."""
    if len(answers) != 1:
        return []
    from sightline.explanation.explain import changes_of as of_one

    with progress_bar() as progress:
        return of_one(answers[0], words, known, progress)
