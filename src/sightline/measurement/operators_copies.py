"""Copies: within the memory of the device, within the host's, and between them."""

from typing import TYPE_CHECKING

from sightline.errors import InputError
from sightline.measurement.buffers import Tensors, rotated
from sightline.measurement.operator_case import Case
from sightline.measurement.torch_machine import Machine, import_torch
from sightline.scenario import ElementwiseOperation

if TYPE_CHECKING:
    from torch import Tensor

COPIES = ("memory", "host", "host-to-device", "device-to-host", "device-to-device")
"""memory: the memory of whatever the scenario's device is."""
_PLACES = {
    "host": ("cpu", "cpu"),
    "host-to-device": ("cpu", "cuda:0"),
    "device-to-host": ("cuda:0", "cpu"),
    "device-to-device": ("cuda:0", "cuda:1"),
}


def copy_case(x: ElementwiseOperation, machine: Machine, implementation: str) -> Case:
    """Return a copy from pinned memory where the host is one end; raises `InputError` where there is no device."""
    torch = import_torch()
    elements, dtype = int(x.elements), machine.dtype(x.dtype)
    source, target = _PLACES.get(implementation, (machine.kind, machine.kind))
    needed = 2 if "cuda:1" in target else int("cuda" in source + target)
    there = torch.cuda.device_count()
    if there < needed:
        raise InputError(f"--implementation {implementation} needs {needed} GPUs; this machine has {there}")
    pinned = needed > 0

    def place(where: str) -> "Tensor":
        tensor: Tensor = torch.randn(elements, device=where).to(dtype)
        return tensor.pin_memory() if pinned and where == "cpu" else tensor

    def build() -> Tensors:
        return place(source), place(target)

    sets = rotated(machine, 2 * elements * dtype.itemsize, build) if not pinned else [build()]

    def call(turn: int) -> object:
        given, out = sets[turn % len(sets)]
        return out.copy_(given, non_blocking=True)

    return Case(call=call, implementation=implementation, sets=len(sets))
