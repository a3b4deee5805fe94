"""What was recorded, as rows of a profile."""

from collections.abc import Mapping, Sequence

import numpy as np

from sightline.measurement.module_regions import Address
from sightline.measurement.module_timeline import Passage
from sightline.profile import TRAINING, Row
from sightline.scenario import Device

INTENSITY = 10.0
"""FLOPs per byte above which work without a known device is called bound by arithmetic."""


def rows_of(
    steps: Sequence[Mapping[Address, Passage]],
    work: Mapping[Address, Passage],
    device: Device | None = None,
    dtype: str | None = None,
) -> list[Row]:
    """Return a row per address: the mean over ``steps``, and the FLOPs and bytes of one of them, ``work``.

    Without steps the times are 0.

    ``device`` and ``dtype`` say whose roofline ``bound`` goes by.
    """
    # dict.fromkeys keeps the order in which a step came by.
    addresses = list(dict.fromkeys(a for step in steps or [work] for a in step))
    intensity = INTENSITY
    if device is not None and dtype is not None and dtype in device.peak_flops:
        intensity = float(device.peak_flops[dtype] / device.memory_bandwidth)
    return [_row(a, steps, work.get(a), intensity) for a in sorted(addresses, key=_phase)]


def _row(address: Address, steps: Sequence[Mapping[Address, Passage]], work: Passage | None, intensity: float) -> Row:
    passages = [step[address] for step in steps if address in step]
    came_by = [p.count for p in passages] if steps else [work.count] if work else []
    phase, (block, module, operator) = address
    flops, moved = (0.0, 0.0) if work is None else (float(x) for x in np.sum(work.parts, axis=0))
    return Row(
        phase=phase,
        block=block,
        module=module,
        operator=f"{operator} gradient" if phase == "backward" and operator != "all" else operator,
        count=sum(came_by) / max(1, len(steps)),
        flops=flops,
        bytes=moved,
        network_bytes=0.0,
        time_s=sum(float(np.sum(p.parts)) for p in passages) / max(1, len(steps)),
        bound=_bound(phase, flops, moved, intensity),
    )


def _bound(phase: str, flops: float, moved: float, intensity: float) -> str:
    if phase in ("communication_exposed", "host"):
        return "network" if phase == "communication_exposed" else "host"
    return "compute" if flops > 0 and flops >= intensity * moved else "memory"


def _phase(address: Address) -> int:
    order = ("prefill", "decode", *TRAINING.phases)
    return order.index(address.phase)
