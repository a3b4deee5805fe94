"""A device as prices see it: the numbers of its datasheet, and the constants of each kind of operator.

Constants are resolved when an operator first needs them. They come from measurements of the device, of a relative of
it, or of no device in particular (``generic``), so that an imagined device needs numbers and no catalog entry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from sightline.content import record, remembered
from sightline.cost.families import PROCESSOR, Evidence, evidence_of, family_with
from sightline.quantities import PLAIN, Number
from sightline.scenario import Device

if TYPE_CHECKING:
    from sightline.cost.elementwise import ElementwiseConstants, KernelGeneration
    from sightline.cost.processor_constants import ShardingConstants

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelChoice:
    """Which of a device's kernels run, and how their constants are resolved: what a framework or an engine decides."""

    attention: str = "flash-2"
    """Generation of the fused attention kernels of training: flash-1, flash-2 or flash-3."""
    single_products: bool = True
    """Products take what tables of single products say: the residual surface of a library's choice of kernels, and the
    device's clock where constants are borrowed. Otherwise they take the formula's own constants."""
    stream_generation: "KernelGeneration | None" = None
    """How element-wise kernels were written; None for those that a family was measured with."""
    streams: "ElementwiseConstants | None" = None
    """Constants of all element-wise kernels, where they are known for the framework instead of kernel by kernel."""
    eager: bool = True
    """Operators are called one after the other, as they are written; otherwise by a runtime with kernels of its own."""
    older_matmuls: bool = False
    """Products run by the libraries of CUDA 11.6 and before."""
    dtype: str = "fp32"
    """Number format of the model."""


class Update(NamedTuple):
    """What an optimizer's step works on."""

    traffic_bytes: Number
    parameters: Number
    tensors: Number
    sharded: Number
    """1 where tensors are sharded over ranks by fully sharded data parallelism, else 0."""
    others_bytes: Callable[[], Number]
    """Bytes that pass through the caches between one update and the next."""


@record
class DeviceModel:
    """An accelerator, whose kernels are launched ahead and run while the host goes on."""

    device: Device
    """The datasheet; its numbers may be arrays that broadcast."""
    kernels: KernelChoice = KernelChoice()
    _constants: dict[object, Any] = field(default_factory=dict)

    asynchronous = True
    """The host launches kernels and goes on; otherwise a call returns when its work is done."""
    in_host_memory = False
    """The device has no memory but the host's."""

    def constants(self, resolve: "Callable[Concatenate[DeviceModel, P], R]", *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what ``resolve`` makes of this model, resolved once."""
        key = (resolve, args, *kwargs.items())
        if key not in self._constants:
            self._constants[key] = resolve(self, *args, **kwargs)
        return cast(R, self._constants[key])

    @property
    def axes(self) -> int:
        """Number of axes that the device's numbers, or constants of its kernels, span; 0 for plain numbers."""
        return self.constants(_axes)

    def evidence(self, part: str) -> Evidence:
        """Return what the constants of a part rest on."""
        return evidence_of(self.device, part)

    @property
    def process_bytes(self) -> float | None:
        """Host memory of a process before its model, where it counts as the device's; None where it does not."""
        return None

    @property
    def sharding(self) -> "ShardingConstants | None":
        """What the host's code of fully sharded data parallelism takes; None where the device works on meanwhile."""
        return None

    @property
    def calls(self) -> Mapping[str, float]:
        """Seconds that a model's own code takes around operators, by block and pass; none while the device works."""
        return {}

    @property
    def call_weights(self) -> Mapping[str, Mapping[str, float]]:
        """By block and module, how much longer that code takes around a call there than on average."""
        return {}

    def near_share(self, touched_bytes: Number) -> Number:
        """Return the share of what is touched in turns that caches next to the cores no longer hold."""
        return 1.0 + 0.0 * touched_bytes

    def update_s(self, update: Update) -> Number:
        """Return the seconds of the optimizer's step: its traffic at what element-wise kernels reach."""
        streams = self.kernels.streams
        fraction = 1.0 if streams is None else streams.memory_fraction
        time_s: Number = update.traffic_bytes / (self.device.memory_bandwidth * fraction)
        return time_s


def _axes(model: DeviceModel) -> int:
    d, streams = model.device, model.kernels.streams
    rates = (*d.peak_flops.values(), d.memory_bandwidth, d.vector_flops, d.l2_bandwidth, d.l2_bytes, d.compute_units)
    if streams is not None:
        rates += (streams.memory_fraction, streams.vector_fraction, streams.kernel_latency_s)
    return 0 if {*map(type, rates)} <= PLAIN else max(map(np.ndim, rates))


@remembered(entries=256, largest_array=4096)
def device_model(device: Device, kernels: KernelChoice = KernelChoice()) -> DeviceModel:
    """Return the model of a device: an accelerator's, or a processor's where operators are called one by one."""
    if kernels.eager and family_with(device, PROCESSOR) is not None:
        from sightline.cost.processor import ProcessorModel

        return ProcessorModel(device=device, kernels=kernels)
    return DeviceModel(device=device, kernels=kernels)
