"""What ``--anchor`` and ``--save-anchor`` ask for."""

from typing import TYPE_CHECKING

from sightline.cli import output
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored


def anchored_by(anchors: list[str] | None, name: str | None, store: str | None) -> "Anchored | None":
    """Return what the anchors teach, kept under a ``name`` if there is one; None without any.

    Raises:
        InputError: Some anchor teaches nothing, or there is nothing to keep under the name.
    """
    if not anchors:
        if name is not None:
            raise InputError(f"--save-anchor '{name}' requires --anchor")
        return None
    from sightline.anchors import anchored, save
    from sightline.anchors.files import check_name
    from sightline.runs import open_store

    if name is not None:
        check_name(open_store(store), name)
    known = anchored(anchors, store)
    if name is not None:
        save(known, name, store)
        output.print_remark(f"saved anchor '{name}'")
    return known
