"""Makes modules and functions of a model say when they begin and end, and takes that back again."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from typing import Any

from sightline.measurement.modules.marks import Marks, values_of, with_alias
from sightline.measurement.modules.roles import Roles
from sightline.measurement.modules.timeline import CORE, QKV, RESIDUAL, ROPE, Address, Region, Timeline

ROPE_FUNCTIONS = ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave", "apply_rotary_emb")
ATTENTION_FUNCTIONS = "ALL_ATTENTION_FUNCTIONS"
EXPANSION = "kv_b_proj"
"""The projection that makes heads of latent keys and values."""


def wrap(roles: Roles, marks: Marks, timeline: Timeline) -> ExitStack:
    """Wrap what ``roles`` names, and the functions that attention calls; closing the stack unwraps."""
    undo = ExitStack()
    for role in roles.roles:
        put_on(undo, role.module, "forward", _timed(role.module.forward, role.region, role.then, marks, timeline))
    # Latent keys and values are expanded after their rotary part was rotated.
    after_rope = QKV if any(hasattr(attention, EXPANSION) for attention in roles.attentions) else CORE
    for names in _namespaces(roles.attentions):
        _wrap_functions(undo, names, after_rope, marks, timeline)
    for layer in roles.layers:
        again = getattr(layer, "_gradient_checkpointing_func", None)
        if again is not None:
            put_on(undo, layer, "_gradient_checkpointing_func", _checkpointing(again, timeline))
    return undo


def _timed(
    call: Callable[..., Any], region: Region, then: Region | None, marks: Marks, timeline: Timeline
) -> Callable[..., Any]:
    """``call``, in ``region`` while it runs; an exception, as ends a recomputation early, is left to the caller."""

    @wraps(call)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if not timeline.live:
            return call(*args, **kwargs)
        if not marks.recording():
            # What generates is over in microseconds, so that even a look at its tensors would be seen.
            marks.come_to(region, args, kwargs)
            result = call(*args, **kwargs)
            if then is not None:
                marks.go_from(then, result)
            return result
        timeline.pause()
        args, kwargs = with_alias(args, kwargs, marks.enter(region, values_of(args, kwargs)))
        timeline.resume()
        result = call(*args, **kwargs)
        if then is not None:
            timeline.pause()
            result = marks.leave(then, result)
            timeline.resume()
        return result

    return timed


def _namespaces(attentions: Sequence[Any]) -> list[dict[str, Any]]:
    """The namespaces that the attention modules' forward methods look functions up in, each once."""
    found: dict[int, dict[str, Any]] = {}
    for attention in attentions:
        for kind in type(attention).__mro__:
            names = vars(sys.modules.get(kind.__module__, object))
            if any(name in names for name in (ATTENTION_FUNCTIONS, *ROPE_FUNCTIONS)):
                found[id(names)] = names
                break
    return list(found.values())


def _wrap_functions(
    undo: ExitStack, names: dict[str, Any], after_rope: Region, marks: Marks, timeline: Timeline
) -> None:
    """RoPE and the attention core are functions; no module stands for them."""
    interfaces = names.get(ATTENTION_FUNCTIONS)
    for name in ROPE_FUNCTIONS:
        if name in names:
            _put(undo, names, name, _timed(names[name], ROPE, after_rope, marks, timeline))
    if interfaces is not None:
        timed = _TimedInterfaces(interfaces, lambda core: _timed(core, CORE, None, marks, timeline))
        _put(undo, names, ATTENTION_FUNCTIONS, timed)


class _TimedInterfaces:
    """transformers' attention functions, each of them timed when it is asked for."""

    def __init__(self, interfaces: Any, timed: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._interfaces, self._timed = interfaces, timed
        self._known: dict[Callable[..., Any], Callable[..., Any]] = {}

    def get_interface(self, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
        core = self._interfaces.get_interface(name, default)
        if core not in self._known:
            self._known[core] = self._timed(core)
        return self._known[core]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._interfaces, name)


def _checkpointing(checkpoint: Callable[..., Any], timeline: Timeline) -> Callable[..., Any]:
    """``checkpoint``, whose function is a recomputation when backward calls it, until it returns or is stopped."""

    def checkpointing(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def maybe_again(*inner: Any, **named: Any) -> Any:
            if not timeline.live or timeline.address.phase != "backward":
                return function(*inner, **named)
            with timeline.visit(Address("recompute", RESIDUAL)):
                return function(*inner, **named)

        return checkpoint(maybe_again, *args, **kwargs)

    return checkpointing


def put_on(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute of one object, which goes back to what it was, its class's where it had none of its own."""
    own = vars(owner)
    if name in own:
        undo.callback(setattr, owner, name, own[name])
    else:
        undo.callback(own.pop, name, None)
    own[name] = value


def _put(undo: ExitStack, names: dict[str, Any], name: str, value: Any) -> None:
    undo.callback(names.__setitem__, name, names[name])
    names[name] = value
