"""A step of AdamW over fp32 parameters in tensors of a layer's size: fused, by lists, or tensor by tensor."""

from typing import Any

from sightline.errors import InputError
from sightline.measurement.buffers import MOST_OF_MEMORY, SEED
from sightline.measurement.operator_case import Case
from sightline.measurement.torch_machine import Machine, import_torch
from sightline.quantities import BYTES, format_quantity
from sightline.scenario import ElementwiseOperation

OPTIMIZERS = ("fused", "foreach", "loop", "clipped")
"""``clipped``: gradients are clipped to a norm before the fused step, as trainers do."""
BYTES_PER_PARAMETER = 16
"""Parameter, gradient and two moments in fp32."""
TENSORS = 16
LARGEST_GRADIENT = 1e9
"""Norm to which gradients are clipped: so large that repeated steps leave them as they are."""
_OPTIONS: dict[str, dict[str, Any]] = {
    "fused": {"fused": True},
    "foreach": {"foreach": True},
    "loop": {"foreach": False, "fused": False},
    "clipped": {"fused": True},
}


def adam_case(x: ElementwiseOperation, machine: Machine, implementation: str) -> Case:
    """Return a step; optimizers take turns until their states fill more than the cache.

    Raises `InputError` where the states do not fit into memory.
    """
    torch = import_torch()
    elements = int(x.elements)
    size = elements * BYTES_PER_PARAMETER
    room = MOST_OF_MEMORY * machine.memory_bytes
    if size > room:
        needs = format_quantity(float(size), BYTES)
        raise InputError(
            f"Adam's states of {elements:,} parameters take {needs}, more than 60 % of this machine's memory"
        )
    torch.manual_seed(SEED)
    count = max(1, min(64, int(2 * machine.cache_bytes // size) + 1, int(room // size)))
    optimizers = [_optimizer(torch, elements, machine.kind, implementation) for _ in range(count)]

    def call(turn: int) -> object:
        optimizer = optimizers[turn % count]
        if implementation == "clipped":
            torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], LARGEST_GRADIENT)
        return optimizer.step()

    return Case(call=call, implementation=implementation, sets=count, remarks={"tensors": min(TENSORS, elements)})


def _optimizer(torch: Any, elements: int, device: str, implementation: str) -> Any:
    """AdamW with a gradient of random numbers in every parameter."""
    parameters = [
        torch.nn.Parameter(p) for p in torch.randn(elements, device=device).tensor_split(min(TENSORS, elements))
    ]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return torch.optim.AdamW(parameters, lr=1e-4, **_OPTIONS[implementation])
