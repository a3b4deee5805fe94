"""Versions of frameworks and engines, which entries of the catalog list by release line."""

from collections.abc import Iterable


def release_line(version: str, known: Iterable[str]) -> str:
    """Return the longest of the ``known`` versions that ``version`` is or begins with, part by part; empty for none."""
    parts = version.split(".")
    lines = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    listed = set(known)
    return next((line for line in lines if line in listed), "")


def line_of(version: str) -> str:
    """Return the release line that a version belongs to: its first two parts ("1.2" of "1.2.0rc5")."""
    return ".".join(version.split(".")[:2])
