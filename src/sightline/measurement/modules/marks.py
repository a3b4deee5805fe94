"""Marks in the autograd graph where a forward pass went from one region to another, so that backward cuts there too.

Autograd's engine runs the nodes of a device one after another, the youngest of those that are ready first. A node is
younger than all whose results it was given, so a backward pass is the forward pass in reverse; only the sums into
leaves come earlier, right behind the node that made them. One mark at each border is therefore enough, on any tensor
there that has a gradient: when it is reached, all that came after the border is done, weight gradients and sums of
branches included, and what came before it begins. That holds for arguments given by keyword, for residual paths (the
mark stands on the branch, not on the tensor that both share) and where a border's first tensors have no gradient.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from sightline.measurement.machine.devices import import_torch
from sightline.measurement.modules.timeline import Address, Region, Timeline

if TYPE_CHECKING:
    from torch import Tensor


class Marks:
    """Cuts the timeline at the borders of regions, in forward and, by marks left in the graph, in backward."""

    def __init__(self, timeline: Timeline, reached: Callable[[], None]) -> None:
        self._timeline = timeline
        self._reached = reached
        """Told of each mark that a backward pass comes to."""
        self._torch = import_torch()
        self.recording: Callable[[], bool] = self._torch.is_grad_enabled
        """Whether a graph is recorded, in which marks can be left."""
        self._left: Callable[[], Tensor | None] = _nothing
        """The value with which the pass left the last region, as long as somebody holds it."""
        self._alias: Callable[[], Tensor | None] = _nothing

    def enter(self, region: Region, values: Sequence[Any]) -> "tuple[int, Tensor] | None":
        """The pass comes to ``region`` with ``values``; the position of the value that is now marked, and its alias.

        The alias is a view of the value. A gradient that reaches it comes from this region alone.
        """
        before = self._timeline.address.region
        if before == region:
            return None
        left = self._left()
        if left is not None and any(x is left for x in values):
            # The border behind the last region is the border of this one.
            self._timeline.rename(region)
            return None
        found = self._with_gradient(values)
        if found is None:
            self._timeline.pass_to(region)
            return None
        index, tensor = found
        alias = tensor.view_as(tensor)
        self._mark(alias.grad_fn, before)
        self._timeline.pass_to(region)
        self._alias = ref(alias)
        return index, alias

    def leave(self, region: Region, result: Any) -> Any:
        """The pass goes on to ``region`` with ``result``, which the last region made; returns it, or its alias."""
        before = self._timeline.address.region
        if before == region:
            return result
        values = result if type(result) in (tuple, list) else [result]
        found = self._with_gradient(values)
        made = next((x for x in values if isinstance(x, self._torch.Tensor)), None)
        if found is not None and len(values) > 1:
            # The first result need not be the last that was made: a node of its own is younger than all of them.
            index, made = found[0], found[1].view_as(found[1])
            result = type(result)((*values[:index], made, *values[index + 1 :]))
            self._mark(made.grad_fn, before)
        elif found is not None and found[1].grad_fn is not None and found[1] is not self._alias():
            # A module that returns what it was given has no work of its own, in backward neither.
            self._mark(found[1].grad_fn, before)
        self._left = _nothing if made is None else ref(made)
        self._timeline.pass_to(region)
        return result

    def come_to(self, region: Region, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """`enter` where no graph is recorded."""
        if self._timeline.address.region == region:
            return
        left = self._left()
        if left is not None and ((args and args[0] is left) or _holds(kwargs, left)):
            self._timeline.rename(region)
        else:
            self._timeline.pass_to(region)

    def go_from(self, region: Region, result: Any) -> None:
        """`leave` where no graph is recorded."""
        if self._timeline.address.region != region:
            made = result[0] if type(result) in (tuple, list) else result
            self._left = ref(made) if isinstance(made, self._torch.Tensor) else _nothing
            self._timeline.pass_to(region)

    def _with_gradient(self, values: Sequence[Any]) -> "tuple[int, Tensor] | None":
        if not self._torch.is_grad_enabled():
            return None
        for index, value in enumerate(values):
            if isinstance(value, self._torch.Tensor) and value.requires_grad:
                return index, value
        return None

    def _mark(self, node: Any, before: Region) -> None:
        """When backward reaches ``node``, it comes to the region that forward was in ``before``."""
        timeline, address = self._timeline, Address("backward", before)

        def reached(_: Any) -> None:
            if timeline.live:
                timeline.pause()
                timeline.cut(address)
                self._reached()
                timeline.resume()

        node.register_prehook(reached)


def _nothing() -> None:
    return None


def _holds(kwargs: Mapping[str, Any], value: Any) -> bool:
    for one in kwargs.values():  # noqa: SIM110 - a generator takes longer to begin than this to end
        if one is value:
            return True
    return False


def values_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return a call's arguments in order."""
    return [*args, *kwargs.values()]


def with_alias(
    args: tuple[Any, ...], kwargs: dict[str, Any], marked: "tuple[int, Tensor] | None"
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a call's arguments with the alias in place of the marked value."""
    if marked is None:
        return args, kwargs
    index, alias = marked
    if index < len(args):
        return (*args[:index], alias, *args[index + 1 :]), kwargs
    name = list(kwargs)[index - len(args)]
    return args, {**kwargs, name: alias}
