"""The power that a device draws: idle, by waiting within a pass, by bytes that it moves and by arithmetic.

``P = min(cap, P_idle + w (P_tdp - P_idle) + e_byte bytes/s + e_flop FLOP/s)``, the last two only while kernels run. The
share ``w`` and ``e_byte`` are those of an A100 that decodes (``architectures.yaml``); arithmetic draws what is left
below the limit at the rate that long products reach. Left out: hosts, switches, cooling, and links.
"""

from typing import NamedTuple

import numpy as np

from sightline.cost import families
from sightline.quantities import Number, smaller
from sightline.scenario import Cluster

WAITING_SHARE = 0.17
"""Share of the power between idling and the limit that a device draws at its full clock while it waits for its peers or
its host; fitted with 143 pJ per byte to 20 runs on A100s (Splitwise, arXiv 2311.18677: 172 to 298 W), to 4 %."""
SUSTAINED = 0.7
"""Share of the datasheet's peak at which long products reach the limit (estimate)."""
PJ = 1e-12


class Watts(NamedTuple):
    """What a device draws, and what it draws more at the datasheet's rates."""

    idle: Number
    waiting: Number
    """Within a step or pass, whatever runs."""
    cap: Number
    streaming: Number
    """More at the full bandwidth of the memory."""
    arithmetic: Number
    """More at the peak of its arithmetic."""

    def joules(self, seconds: Number, streaming_s: Number, arithmetic_s: Number) -> Number:
        """Return what a pass of ``seconds`` takes whose bytes and arithmetic take so long at the datasheet's rates."""
        active_j = self.streaming * streaming_s + self.arithmetic * arithmetic_s
        return smaller(self.cap * seconds, self.waiting * seconds + active_j)


def watts_of(cluster: Cluster) -> Watts:
    """Return what one of the cluster's devices draws."""
    device = cluster.device
    cap = device.tdp_w if cluster.power_cap_w is None else np.minimum(cluster.power_cap_w, device.tdp_w)
    waiting = device.idle_w + WAITING_SHARE * (device.tdp_w - device.idle_w)
    return Watts(
        idle=device.idle_w,
        waiting=smaller(waiting, cap),
        cap=cap,
        streaming=families.of_device(device)["byte_pj"] * PJ * device.memory_bandwidth,
        arithmetic=(device.tdp_w - waiting) / SUSTAINED,
    )
