"""What a suite can run on here: the machine's GPUs under their name in the catalog, else its processor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sightline import catalog
from sightline.loading.clusters import read_cluster
from sightline.loading.this_machine import THIS_MACHINE, processor
from sightline.measurement.environment_gpu import gpus
from sightline.scenario import Device

_MEMORY_TOLERANCE = 0.1
"""A driver keeps a little of the memory that a datasheet states."""
_UNSAID = "sxm"
"""The form factor that a driver's name leaves out, or says with a number: SXM4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Accelerators of one kind, or a processor whose cores several processes share."""

    device: Device
    count: int
    """GPUs; on a processor the processes that still have a core each, two at most."""

    @property
    def is_processor(self) -> bool:
        """Whether operators run on the processor itself."""
        return self.device.name == THIS_MACHINE

    def cluster(self, devices: int) -> str:
        """Return the scenario's ``cluster`` for that many of them."""
        return f"{devices}x {self.device.name}"


def hardware_at_hand() -> Hardware:
    """Return what this machine has: its first kind of GPU where the catalog knows it, else its processor."""
    found = gpus()
    name = catalog_name(found[0]) if found else None
    if name is None:
        return Hardware(device=read_cluster(THIS_MACHINE).device, count=min(processor().cores, 2))
    same = [gpu for gpu in found if gpu["name"] == found[0]["name"]]
    return Hardware(device=read_cluster(f"1x {name}").device, count=len(same))


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
        stated = float(read_cluster(f"1x {name}").device.memory_bytes)
        if abs(memory / stated - 1) > _MEMORY_TOLERANCE:
            continue
        if len(own) > most:
            best, most = name, len(own)
    return best


def _words(name: str) -> list[str]:
    return name.lower().replace("-", " ").split()


def _is_memory(word: str) -> bool:
    return word.endswith("gb") and word[:-2].isdigit()
