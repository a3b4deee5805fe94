"""Errors of a watch: said once each, and never the job's."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

LOGGER = logging.getLogger("sightline.watching")
"""Warnings of a job may be errors; a line of a log is none."""


class Quiet:
    """Catches what goes wrong in a part of the watch, and says it the first time."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        """Parts that went wrong."""

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Go on after an error; interrupts of the user and the end of the process pass."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the job goes on
            if part not in self.failed:
                self.failed.add(part)
                said = " ".join(str(error).split()) or type(error).__name__
                LOGGER.warning("sightline.watch: %s failed: %s; the job goes on without that", part, said)
