"""Find the parts of a Hugging Face model, and wrap them so that they report when they begin and end.

Waits for other ranks are wrapped too: in collectives, in sharding, and behind the last gradient. What fully sharded
data parallelism does around a model's units (it gathers, frees and scatters) runs in hooks of modules and of the
graph, so that it would count as part of whatever module the step is in.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

from sightline.measurement.machine import import_torch
from sightline.measurement.modules.timeline import (
    ATTENTION_NORM,
    CORE,
    EXPERTS,
    FINAL_NORM,
    GRADIENTS,
    LOGITS,
    LOSS,
    MLP,
    MLP_NORM,
    OUTPUT,
    QKV,
    RESIDUAL,
    ROPE,
    ROUTER,
    SHARED_EXPERTS,
    Address,
    Marks,
    Region,
    Timeline,
    values_of,
    with_alias,
)
from sightline.measurement.timing import Phase

OUTPUT_PROJECTIONS = ("o_proj", "out_proj", "c_proj", "dense", "wo", "out", "linear_proj")
ROUTERS = ("gate", "router")
HEADS = ("lm_head", "embed_out", "output", "output_layer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A module that is a region while it runs, and the region that comes when it has run (None: it stays)."""

    module: Any
    region: Region
    then: Region | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The parts of a model."""

    layers: Sequence[Any]
    attentions: Sequence[Any]
    roles: Sequence[Role]


def roles_of(model: Any) -> Roles:
    """Return the model's parts, however it is wrapped; without layers where none were recognized."""
    owner, layers = _layers(model)
    attentions = [child for layer in layers for name, child in layer.named_children() if _is_attention(name)]
    roles = [role for layer in layers for role in _of_layer(layer)]
    if layers:
        # Whatever a layer does around its parts is its residual path, from where the first one begins.
        roles.append(Role(module=layers[0], region=RESIDUAL, then=RESIDUAL))
        roles += _of_ends(model, owner)
    return Roles(layers=layers, attentions=attentions, roles=roles)


def _layers(model: Any) -> tuple[Any, Sequence[Any]]:
    """The module that holds the decoder layers, and the layers."""
    for owner in model.modules():
        for children in (list(x.children()) for x in owner.children() if type(x).__name__.endswith("ModuleList")):
            if children and all(any(_is_attention(n) for n, _ in c.named_children()) for c in children):
                return owner, children
    return model, []


def _is_norm(name: str) -> bool:
    return "norm" in name or name.startswith("ln_")


def _is_attention(name: str) -> bool:
    return ("attn" in name or "attention" in name) and not _is_norm(name)


def _of_layer(layer: Any) -> Iterator[Role]:
    parts = list(layer.named_children())
    norms = [child for name, child in parts if _is_norm(name)]
    for index, norm in enumerate(norms):
        first = index < (len(norms) + 1) // 2
        yield Role(module=norm, region=ATTENTION_NORM if first else MLP_NORM, then=RESIDUAL)
    loose = [child for name, child in parts if _is_projection(child)]
    for child in loose:
        yield Role(module=child, region=MLP, then=RESIDUAL if child is loose[-1] else MLP)
    for name, child in parts:
        if _is_norm(name) or child in loose:
            continue
        if _is_attention(name):
            yield from _of_attention(child)
        elif any(True for _ in child.parameters()):
            routed = any("experts" in n for n, _ in child.named_children())
            yield Role(module=child, region=EXPERTS if routed else MLP, then=RESIDUAL)
            if routed:
                yield from _of_experts(child)


def _of_experts(experts: Any) -> Iterator[Role]:
    """What chooses experts, and those that every token goes through; the rest of the module is the others'."""
    for name, child in experts.named_children():
        if name in ROUTERS:
            yield Role(module=child, region=ROUTER, then=EXPERTS)
        elif name.startswith("shared_expert") and not name.endswith("gate"):
            yield Role(module=child, region=SHARED_EXPERTS, then=EXPERTS)


def _is_projection(module: Any) -> bool:
    weight = getattr(module, "weight", None)
    return getattr(weight, "ndim", 0) == 2


def _of_attention(attention: Any) -> Iterator[Role]:
    yield Role(module=attention, region=QKV, then=RESIDUAL)
    projections = [(name, child) for name, child in attention.named_children() if not _is_norm(name)]
    named = [child for name, child in projections if name in OUTPUT_PROJECTIONS]
    if named:
        yield Role(module=named[-1], region=OUTPUT, then=RESIDUAL)
    for name, child in projections:
        if "qkv" in name or name == "query_key_value":
            # Models whose core is no function of its own: it begins where the fused projection ends.
            yield Role(module=child, region=QKV, then=CORE)
        elif name == "core_attention":
            yield Role(module=child, region=CORE, then=CORE)


def _of_ends(model: Any, owner: Any) -> Iterator[Role]:
    """Final norm and head; what comes before the first layer is the embedding."""
    norms = [child for name, child in owner.named_children() if _is_norm(name) and "embed" not in name]
    if norms:
        yield Role(module=norms[-1], region=FINAL_NORM, then=LOGITS)
    for name, module in model.named_modules():
        if name.rsplit(".", 1)[-1] in HEADS:
            yield Role(module=module, region=LOGITS, then=LOSS)
            return


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
