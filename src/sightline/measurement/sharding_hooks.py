"""What PyTorch's fully sharded data parallelism does around a model's units: gathering, freeing, scattering gradients.

It runs in hooks of the modules and of the graph, so that it would count as part of whatever module the step is in.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from sightline.measurement.module_wrapping import put_on

OF_UNITS = ("pre_forward", "post_forward", "pre_backward", "post_backward")
"""What a unit's parameters go through: gathered, freed, gathered again, gradients copied together and scattered."""
OF_STATES = ("_register_pre_backward_hook", "_root_post_backward_final_callback")
"""Beside it: a hook on what a unit returned, and what waits for the last gradients."""


def wrap_sharding(model: Any, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> ExitStack:
    """Put ``around`` on everything that sharding does to ``model``; closing the stack takes it off again.

    A model that is not sharded stays as it is.
    """
    undo = ExitStack()
    for owner, name in _functions(model):
        put_on(undo, owner, name, around(getattr(owner, name)))
    return undo


def _functions(model: Any) -> Iterator[tuple[Any, str]]:
    """The methods that hooks look up when they are called; PyTorch has no public name for them."""
    for module in model.modules():
        if not hasattr(module, "_get_fsdp_state"):
            continue
        state = module._get_fsdp_state()  # noqa: SLF001 - as above
        yield from ((state, name) for name in OF_STATES)
        yield from ((unit, name) for unit in state._fsdp_param_groups for name in OF_UNITS)  # noqa: SLF001
