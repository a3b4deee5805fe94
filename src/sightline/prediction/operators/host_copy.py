"""A copy between the host's memory and a device's: bytes over what the host exchanges with one device."""

import numpy as np

from sightline.prediction.operators.answer import OperatorAnswer
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import larger, smaller
from sightline.scenario import Cluster, HostCopyOperation

START_S = 1e-5
"""Fixed time of a copy that a driver starts (estimate; small copies take 5 to 15 us)."""
STAGED_BANDWIDTH = 8e9
"""Bytes per second at which a thread of the reference speed copies pageable memory to pinned (estimate)."""
HALF_WIDTH = 0.3
"""Of the 80 % interval, as a natural logarithm: nobody's copies are fitted."""


def host_copy_answer(x: HostCopyOperation, cluster: Cluster) -> OperatorAnswer:
    """Return the seconds of a copy between host and device: ``start + bytes / bandwidth``.

    From and to pinned memory the bandwidth is the host's ``device_bandwidth``, never more than either memory has.
    Pageable memory is staged in pinned pieces by one thread of the driver while the piece before travels, so the slower
    of both counts. Left out: copies of several devices at a time, and of memory behind another socket.
    """
    host, moved = cluster.host, ELEMENT_BYTES[x.dtype] * x.elements
    bandwidth = smaller(host.device_bandwidth, smaller(host.memory_bandwidth, cluster.device.memory_bandwidth))
    time_s = moved / bandwidth
    if x.host_memory == "pageable":
        time_s = larger(time_s, moved / (STAGED_BANDWIDTH * host.speed))
    time_s = np.asarray(time_s + START_S)
    return OperatorAnswer(
        time_s if time_s.ndim else float(time_s), 0.0 * moved, moved, "network", "network", "datasheet", HALF_WIDTH
    )
