"""Time that a step spends on other ranks: in waits for a collective, sharding, and behind the last gradient."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from sightline.measurement.module_regions import COLLECTIVES, Address
from sightline.measurement.module_timeline import Timeline
from sightline.measurement.sharding_hooks import wrap_sharding
from sightline.measurement.torch_machine import import_torch

EXPOSED = Address("communication_exposed", COLLECTIVES)


def distributed() -> bool:
    """Whether this process is one of several ranks."""
    found = import_torch().distributed
    return bool(found.is_available() and found.is_initialized() and found.get_world_size() > 1)


def wrap_waits(model: Any, timeline: Timeline) -> ExitStack:
    """Make waits for collectives that Python code starts (DeepSpeed, plain calls), and sharding, exposed communication."""
    undo = ExitStack()
    if distributed():
        undo.enter_context(wrap_sharding(model, lambda call: _exposed(call, timeline)))
        work = import_torch().distributed.Work
        undo.callback(setattr, work, "wait", work.wait)
        work.wait = _exposed(work.wait, timeline)
        if isinstance(model, import_torch().nn.parallel.DistributedDataParallel):
            # Before its module is called it may make buffers equal on all ranks.
            undo.callback(vars(model).pop, "_pre_forward")
            vars(model)["_pre_forward"] = _exposed(model._pre_forward, timeline)  # noqa: SLF001 - no hook stands there
    return undo


def _exposed(wait: Callable[..., Any], timeline: Timeline) -> Callable[..., Any]:
    @wraps(wait)
    def exposed(*args: Any, **kwargs: Any) -> Any:
        if not timeline.live:
            return wait(*args, **kwargs)
        before = timeline.address
        timeline.cut(EXPOSED)
        try:
            return wait(*args, **kwargs)
        finally:
            timeline.cut(before, resumed=True)

    return exposed


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
            self._timeline.cut(EXPOSED)
