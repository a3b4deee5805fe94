"""Time that a step spends on other ranks: in collectives, in sharding, and behind the last gradient.

What fully sharded data parallelism does around a model's units (it gathers, frees and scatters) runs in hooks of modules
and of the graph, so that it would count as part of whatever module the step is in.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
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
COLLECTIVES = (
    *("all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "all_gather_coalesced"),
    *("reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "send", "recv", "barrier"),
    *("all_gather_single", "reduce_scatter_single", "batch_isend_irecv"),
)
"""Functions of torch.distributed that move data. ``isend`` and ``irecv`` are compared by identity, and stay as they are."""

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


def wrap_waits(model: Any, timeline: Timeline) -> ExitStack:
    """Make waits for collectives that Python code starts (DeepSpeed, plain calls), and sharding, exposed communication."""
    undo = ExitStack()
    if distributed():

        def exposed(call: Call) -> Call:
            return _inside(lambda: timeline.visit(WAITING), call)

        undo.enter_context(wrap_sharding(model, exposed))
        work = import_torch().distributed.Work
        undo.callback(setattr, work, "wait", work.wait)
        work.wait = exposed(work.wait)
        if isinstance(model, import_torch().nn.parallel.DistributedDataParallel):
            # Before its module is called it may make buffers equal on all ranks.
            put_on(undo, model, "_pre_forward", exposed(model._pre_forward))  # noqa: SLF001 - no hook stands there
    return undo


class EndOfGradients:
    """Cuts where the last gradient of a backward pass is there: what follows until it returns is waiting.

    DistributedDataParallel waits for its buckets then, in a callback of the engine that it registers with the last
    gradient; this one is registered with the first, and so comes before it.
    """

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
            import_torch().autograd.Variable._execution_engine.queue_callback(self._end)  # noqa: SLF001 - no other name

    def _end(self) -> None:
        if self._timeline.live:
            self._timeline.cut(WAITING)


def watch_collectives(phase: Phase) -> None:
    """Let every collective of this process, and every wait for one, count as exposed communication.

    Wraps the functions of torch.distributed; to be called before libraries that keep references to them are imported.
    Collectives on a device's own stream return at once and are not seen.
    """
    import torch.distributed as dist

    for name in COLLECTIVES:
        call = getattr(dist, name, None)
        if call is not None:
            setattr(dist, name, _timed(call, phase))


def watch_sharding(model: Any, phase: Phase) -> None:
    """Let everything that sharding does to ``model`` in a step count as exposed communication: copies, hooks, waits."""
    wrap_sharding(model, lambda call: _inside(lambda: phase(EXPOSED), call))


def _timed(call: Call, phase: Phase) -> Call:
    exposed = _inside(lambda: phase(EXPOSED), call)

    @wraps(call)
    def timed(*args: Any, **kwargs: Any) -> Any:
        work = exposed(*args, **kwargs)
        if isinstance(work, list):
            return [_Waited(one, phase) for one in work]
        return _Waited(work, phase) if hasattr(work, "wait") else work

    return timed


class _Waited:
    """A handle of a collective whose ``wait`` is timed; everything else is the handle's own."""

    def __init__(self, work: Any, phase: Phase) -> None:
        self._work, self._phase = work, phase

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        with self._phase(EXPOSED):
            return self._work.wait(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)
