"""Names that a driver gives its GPUs, as the catalog has them."""

from collections.abc import Mapping
from typing import Any

from sightline import catalog
from sightline.loading.clusters.cluster import read_device

_MEMORY_TOLERANCE = 0.1
"""A driver keeps a little of the memory that a datasheet states."""
_UNSAID = "sxm"
"""The form factor that a driver's name leaves out, or says with a number: SXM4."""


def catalog_name(gpu: Mapping[str, Any]) -> str | None:
    """Return the catalog's name of a GPU as `gpus` describes it (name and memory), or None when it is not there.

    All words of the catalog's name but ``sxm`` and the memory must be in the driver's, and the memory must agree; of
    such names the one with the most words wins, so that an RTX 3090 Ti is not taken for an RTX 3090.
    """
    words = _words(str(gpu.get("name", "")))
    memory = float(gpu.get("memory_bytes", 0.0))
    best, most = None, 0
    for name in catalog.names("devices"):
        own = [w for w in _words(name) if not _is_memory(w) and w != _UNSAID]
        if not all(w in words for w in own):
            continue
        stated = float(read_device(name).memory_bytes)
        if abs(memory / stated - 1) > _MEMORY_TOLERANCE:
            continue
        if len(own) > most:
            best, most = name, len(own)
    return best


def _words(name: str) -> list[str]:
    return name.lower().replace("-", " ").split()


def _is_memory(word: str) -> bool:
    return word.endswith("gb") and word[:-2].isdigit()
