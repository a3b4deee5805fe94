"""Time that a step spends on other ranks: in collectives, in sharding, and behind the last gradient.

What fully sharded data parallelism does around a model's units (it gathers, frees and scatters) runs in hooks of
modules and of the graph, so that it would count as part of whatever module the step is in.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from typing import Any

from sightline.measurement.machine.devices import import_torch
from sightline.measurement.machine.timing import Phase
from sightline.measurement.modules.timeline import GRADIENTS, Address, Timeline
from sightline.measurement.modules.wrapping import put_on

EXPOSED = "communication_exposed"
"""The phase of all of it."""
WAITING = Address(EXPOSED, GRADIENTS)
OF_UNITS = ("pre_forward", "post_forward", "pre_backward", "post_backward")
"""What happens to a unit's parameters: gathered, freed, gathered again, gradients copied together and scattered."""
OF_STATES = ("_register_pre_backward_hook", "_root_post_backward_final_callback")
"""A hook on what a unit returned, and the wait for the last gradients."""
Call = Callable[..., Any]


def wrap_sharding(model: Any, around: Callable[[Call], Call]) -> ExitStack:
    """Put ``around`` on everything that sharding does to ``model``; closing the stack takes it off again.

    A model that is not sharded stays as it is.
    """
    undo = ExitStack()
    for owner, name in _sharding_methods(model):
        put_on(undo, owner, name, around(getattr(owner, name)))
    return undo


def _sharding_methods(model: Any) -> Iterator[tuple[Any, str]]:
    """The methods that hooks look up when they are called; PyTorch has no public name for them."""
    for module in model.modules():
        if not hasattr(module, "_get_fsdp_state"):
            continue
        state = module._get_fsdp_state()  # noqa: SLF001 - as above
        yield from ((state, name) for name in OF_STATES)
        yield from ((unit, name) for unit in state._fsdp_param_groups for name in OF_UNITS)  # noqa: SLF001


def _inside(around: Callable[[], AbstractContextManager[None]], call: Call) -> Call:
    @wraps(call)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with around():
            return call(*args, **kwargs)

    return inside


def distributed() -> bool:
    """Whether this process is one of several ranks."""
    found = import_torch().distributed
    return bool(found.is_available() and found.is_initialized() and found.get_world_size() > 1)


def wrap_waits(model: Any, around: Callable[[], AbstractContextManager[None]]) -> ExitStack:
    """Let each wait for other ranks run inside ``around()``: for collectives that Python starts, and for sharding.

    Closing the stack takes it off again. Collectives that a device's library waits for by itself are not seen.
    """
    undo = ExitStack()
    if distributed():

        def inside(call: Call) -> Call:
            return _inside(around, call)

        undo.enter_context(wrap_sharding(model, inside))
        work = import_torch().distributed.Work
        undo.callback(setattr, work, "wait", work.wait)
        work.wait = inside(work.wait)
        if isinstance(model, import_torch().nn.parallel.DistributedDataParallel):
            # Before its module is called it may make buffers equal on all ranks.
            put_on(undo, model, "_pre_forward", inside(model._pre_forward))  # noqa: SLF001 - no hook stands there
    return undo


@contextmanager
def waiting_after_gradients(loss: Any, phase: Phase) -> Iterator[None]:
    """Around the backward pass of ``loss``: once the last gradient is there, the rest of it is exposed communication.

    DistributedDataParallel waits for its buckets then, in a callback of the engine that it registers with the last
    gradient; this one is registered with the first, and so comes before it.
    """
    with ExitStack() as waiting:
        if distributed():
            loss.register_hook(lambda _: _when_gradients_are_there(lambda: waiting.enter_context(phase(EXPOSED))))
        yield


def _when_gradients_are_there(call: Callable[[], object]) -> None:
    import_torch().autograd.Variable._execution_engine.queue_callback(call)  # noqa: SLF001 - it has no other name


class EndOfGradients:
    """Cuts where the last gradient of a backward pass is there: what follows until it returns is waiting."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._registered = False

    def begin(self) -> None:
        """A backward phase begins."""
        self._registered = not distributed()

    def reached(self) -> None:
        """Backward has come to a mark."""
        if not self._registered:
            self._registered = True
            _when_gradients_are_there(self._end)

    def _end(self) -> None:
        if self._timeline.live:
            self._timeline.cut(WAITING)
