"""What power caps do to the devices of a study that are made of technology."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from sightline.exploration.own.told.found import Found
from sightline.exploration.own.told.words import in_words, name_of
from sightline.quantities import counted, percent
from sightline.technology.synthesis import said_of_power

LEAST_FALL: Final = 0.99
"""Share of the clock above which none is said to fall."""


def said_of_caps(found: Found) -> Iterator[str]:
    """Yield how many devices a power cap slows down, and who takes the power where the memory takes most of it."""
    part = next((one for one in found.parts if one.devices is not None), None)
    devices = None if part is None else part.devices
    if part is None or devices is None:
        return
    numbers = [axis for axis in found.axes if axis.number is not None]
    cap, share, *watts = np.broadcast_arrays(devices.cap_w, devices.clock_share, *devices.watts.values())
    memory = watts[list(devices.watts).index("memory")]
    shape = np.broadcast_shapes(share.shape, devices.possible.shape)
    slowed = np.broadcast_to((share < 1.0) & devices.possible, shape)
    count = int(np.count_nonzero(slowed))
    if not count:
        return
    taken = np.where(slowed, np.broadcast_to(memory / cap, shape), -1.0)
    place = np.unravel_index(int(taken.argmax()), shape)

    def there(values: np.ndarray) -> float:
        return float(np.broadcast_to(values, shape)[place])

    where = ", ".join(
        f"{name_of(axis.key)} {in_words(axis, axis.values[i])}"
        for axis, i, n in zip(numbers, place, shape, strict=True)
        if n > 1
    )
    powers = said_of_power(there(cap), {name: there(of) for name, of in devices.watts.items()})
    possible = int(np.count_nonzero(np.broadcast_to(devices.possible, shape)))
    falls = f", and the clock falls to {percent(there(share))}" if there(share) <= LEAST_FALL else ""
    yield (
        f"The power cap slows {count:,} of {counted(possible, 'device')} down, most of all for their memory"
        f"{f' with {where}' if where else ''}: {powers}{falls}."
    )
