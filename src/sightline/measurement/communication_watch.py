"""Seconds that a process spends in collectives and on sharding: communication that blocks the one who asks for it."""

import functools
from collections.abc import Callable
from typing import Any

from sightline.measurement.sharding_hooks import wrap_sharding
from sightline.measurement.training_clock import Phase

COLLECTIVES = (
    *("all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "all_gather_coalesced"),
    *("reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "send", "recv", "barrier"),
    *("all_gather_single", "reduce_scatter_single", "batch_isend_irecv"),
)
"""Functions of torch.distributed that move data; sends and receives of one's own are known by identity and left alone."""

EXPOSED = "communication_exposed"


def watch_collectives(phase: Phase) -> None:
    """Let every collective of this process, and every wait for one, count as exposed communication.

    Wraps the functions of torch.distributed; to be called before libraries that keep references to them are imported.
    Collectives that run beside the work on a device's own stream return at once and are not seen.
    """
    import torch.distributed as dist

    for name in COLLECTIVES:
        call = getattr(dist, name, None)
        if call is not None:
            setattr(dist, name, _timed(call, phase))


def watch_sharding(model: Any, phase: Phase) -> None:
    """Let everything that sharding does to ``model`` in a step count as exposed communication: copies, hooks, waits."""

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*arguments: Any, **named: Any) -> Any:
            with phase(EXPOSED):
                return call(*arguments, **named)

        return timed

    wrap_sharding(model, around)


def _timed(call: Callable[..., Any], phase: Phase) -> Callable[..., Any]:
    @functools.wraps(call)
    def timed(*arguments: Any, **named: Any) -> Any:
        with phase(EXPOSED):
            work = call(*arguments, **named)
        if isinstance(work, list):
            return [_Waited(one, phase) for one in work]
        return _Waited(work, phase) if hasattr(work, "wait") else work

    return timed


class _Waited:
    """A handle of a collective whose ``wait`` is timed; everything else is the handle's own."""

    def __init__(self, work: Any, phase: Phase) -> None:
        self._work, self._phase = work, phase

    def wait(self, *arguments: Any, **named: Any) -> Any:
        with self._phase(EXPOSED):
            return self._work.wait(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)
