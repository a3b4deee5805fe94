"""Which of a Hugging Face model's modules is what: read from the names that its layers give their parts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.measurement.modules.timeline import (
    ATTENTION_NORM,
    CORE,
    EXPERTS,
    FINAL_NORM,
    LOGITS,
    LOSS,
    MLP,
    MLP_NORM,
    OUTPUT,
    QKV,
    RESIDUAL,
    ROUTER,
    SHARED_EXPERTS,
    Region,
)

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
