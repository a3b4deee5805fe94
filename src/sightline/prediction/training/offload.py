"""Offloading: what is kept in the host's memory, what crosses PCIe for it, and the update by the host's processor.

As in ZeRO-Offload and ZeRO-Infinity (arXiv 2101.06840, 2104.07857): gradients go down in 16 bits as backward makes
them, of ZeRO-1 once per step, the host updates its share in fp32 and 16-bit weights come back; offloaded parameters
come up for every pass, offloaded activations go down in the forward and come up in the backward pass. Nothing offloaded
costs exactly nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

from sightline.cost.device_model import device_model
from sightline.prediction.training.micro_batch import Slot
from sightline.prediction.training.update import update_traffic
from sightline.profile import StageMemory
from sightline.profile.profile import IN_HOST_MEMORY
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, anywhere, larger, smaller
from sightline.scenario import Cluster, Host, Plan, Scenario

MEMORY_SHARE = 0.7
"""Share of the host's memory bandwidth that an update reaches, spread over all cores (estimate)."""
CORE_BANDWIDTH = 8e9
"""Bytes per second that one core of the reference speed moves in an update (estimate)."""
STAYS = "offloaded state stays in host memory, the only memory"


def as_kept(scenario: Scenario) -> Scenario:
    """Return the scenario as it is run: on a processor nothing is offloaded, for its memory is the host's."""
    if not scenario.plan.offload or not device_model(scenario.cluster.device).in_host_memory:
        return scenario
    return replace(scenario, plan=replace(scenario.plan, offload=frozenset()))


class OnHost(NamedTuple):
    """Which states are kept in the host's memory (1.0 or 0.0), and what they need on the device instead."""

    parameters: Number
    optimizer: Number
    gradients: Number
    staging_bytes: Number


def on_host(plan: Plan, live_bytes: Number, gathered_bytes: Number) -> OnHost:
    """Return what is on the host.

    Offloaded parameters are staged on the device as they are gathered, if not already.
    """
    parameters, optimizer = plan.offloads("parameters"), plan.offloads("optimizer")
    staging = parameters * larger(live_bytes - gathered_bytes, 0.0)
    gradients = optimizer * _leave_as_computed(plan)
    return OnHost(parameters=parameters, optimizer=optimizer, gradients=gradients, staging_bytes=staging)


def _leave_as_computed(plan: Plan) -> Number:
    """Return 1.0 where gradients leave the device as the backward pass makes them.

    ZeRO-1 reduces them once, after the last micro-batch: until then each device adds up all of them
    (DeepSpeed, runtime/zero/stage_1_and_2.py).
    """
    return 1.0 * plan.framework.offloading.gradients * (plan.zero_stage != 1)


def host_bytes(stages: Sequence[StageMemory], cluster: Cluster) -> Number:
    """Bytes that the devices of one host keep in its memory, each taken to keep as much as the one that keeps most."""
    return reduce(larger, [stage.items[IN_HOST_MEMORY] for stage in stages]) * cluster.devices_per_host


def fits_on_host(stages: Sequence[StageMemory], cluster: Cluster) -> Any:
    """Whether a node's memory holds what is offloaded to it."""
    needed = host_bytes(stages, cluster)
    return needed <= cluster.host.memory_bytes if anywhere(needed) else True


class OffloadTime(NamedTuple):
    """Seconds that offloading adds to a step."""

    update_s: Number
    """The optimizer's step on the host, instead of the device's."""
    exposed_s: Number
    """Transfers that outlast the passes that hide them, and the update's results."""
    moved_bytes: Number
    """Over one device's PCIe link in a step, both directions."""


def offload_time(
    plan: Plan,
    cluster: Cluster,
    slot: Slot,
    micro_batches: Number,
    *,
    parameters: Number,
    weight_bytes: Number,
    activation_bytes: Number,
    replicas_s: Number,
    without_gradient: int = 0,
) -> OffloadTime:
    """Return the seconds of the host's update, and those of transfers that outlast the passes of a micro-batch.

    While replicas exchange what outlasts the same passes, for ``replicas_s`` of the step, transfers go on. A device is
    in charge of ``parameters`` (trained ones) and stores ``weight_bytes``, both after ZeRO, which further passes
    ``without_gradient`` need as well; it keeps ``activation_bytes`` per micro-batch.
    """
    if not plan.offload:
        return OffloadTime(0.0, 0.0, 0.0)
    if plan.launch_blocking:
        # Nothing runs beside a transfer.
        slot, replicas_s = Slot(), 0.0
    host, element_bytes, m = cluster.host, ELEMENT_BYTES[plan.high_precision_dtype], micro_batches
    code, states = plan.framework.offloading, plan.offloads("optimizer")
    weights, kept = plan.offloads("parameters"), plan.offloads("activations") * activation_bytes
    as_computed = _leave_as_computed(plan)
    down = states * element_bytes * parameters * as_computed
    once = states * (1.0 - weights) * element_bytes * parameters
    at_the_end = plan.framework.sharding.gradient_reduce_bytes[plan.high_precision_dtype]
    once = once + states * (1.0 - as_computed) * at_the_end * parameters
    beside, alone = (kept, 0.0) if code.overlaps_activations else (0.0, kept)
    forward, again = weights * weight_bytes + beside, without_gradient * weights * weight_bytes
    backward = weights * weight_bytes + larger(beside, down)
    link = host.device_bandwidth
    outlasting = larger((forward + again) / link - slot.forward_s, 0.0)
    outlasting = outlasting + larger(backward / link - slot.backward_s, 0.0)
    exposed = larger(m * outlasting - replicas_s, 0.0) + (2.0 * m * alone + once) / link
    return OffloadTime(
        update_s=states * host_update_s(parameters, plan, host, cluster.devices_per_host),
        exposed_s=exposed,
        moved_bytes=m * (2.0 * (forward + alone) + again + down) + once,
    )


def host_update_s(parameters: Number, plan: Plan, host: Host, devices: Number) -> Number:
    """Seconds of the update on the host for one device's share, while the node's other devices are updated too."""
    cores = CORE_BANDWIDTH * host.speed * host.cores
    bandwidth = smaller(host.memory_bandwidth * MEMORY_SHARE, cores)
    own = update_traffic(plan.framework, plan.dtype, "adamw")
    saved = max(own - update_traffic(plan.framework, plan.dtype, plan.optimizer), 0.0)
    return parameters * (plan.framework.kernels.host_update_traffic - saved) * devices / bandwidth
