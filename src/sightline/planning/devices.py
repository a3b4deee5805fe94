"""Devices to search, as somebody names them, into clusters: counts that are left out, and ranges of counts."""

import re
from collections.abc import Callable, Iterable, Sequence

from sightline import catalog
from sightline.errors import InputError

_RANGE = re.compile(r"\s*(\d{1,8})\s*\.\.\s*(\d{1,8})\s*[xX×*]\s*(\S.*?)\s*", re.ASCII)


def with_counts(names: Iterable[str], usual: Callable[[], Sequence[int]]) -> list[str]:
    """Return clusters as "<count>x <device>" or by name.

    Args:
        names: Devices alone, "<count>x <device>", "<from>..<to>x <device>", which doubles, or names of clusters.
        usual: Returns the counts of a device that is named alone; asked only where one is.

    Raises:
        InputError: a range that is empty or starts at 0.
    """
    found: list[str] = []
    for name in names:
        device = catalog.name_of("devices", name)
        if matched := _RANGE.fullmatch(name):
            found += [f"{count}x {matched[3]}" for count in _doubled(int(matched[1]), int(matched[2]), name)]
        elif device in catalog.names("devices"):
            found += [f"{count}x {device}" for count in usual()]
        else:
            found.append(name)
    return list(dict.fromkeys(found))


def _doubled(low: int, high: int, name: str) -> list[int]:
    if not 1 <= low <= high:
        raise InputError(f"devices is '{name}'; allowed: a range that doubles, such as 8..1024x h100-sxm-80gb")
    return [low * 2**doublings for doublings in range((high // low).bit_length())]
