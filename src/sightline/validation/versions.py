"""The version of a framework that a table names, and the catalog's version that stands for it."""

import re
from functools import cache

from sightline.catalog import entry, names

Release = tuple[int, ...]


@cache
def known_version(framework: str, version: object) -> str:
    """Return the catalog's version for a printed one: itself, else the newest that is not newer, else the oldest.

    A version that is no number ("nightly") counts as the newest. A framework without versions in the catalog, or a
    version it names otherwise, is left as printed, for loading to judge.
    """
    printed = str(version)
    if framework not in names("frameworks"):
        return printed
    stated = [str(known) for known in entry("frameworks", framework).get("versions") or {}]
    releases = sorted(((release(known), known) for known in stated if release(known)), key=lambda pair: pair[0])
    if printed in stated or not releases:
        return printed
    asked = release(printed)
    if not asked:
        return releases[-1][1]
    return next((known for number, known in reversed(releases) if number <= asked), releases[0][1])


def release(version: str) -> Release:
    """Return the leading numbers of a version: (0, 5) of "v0.5-rc1"; () when there are none."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()
