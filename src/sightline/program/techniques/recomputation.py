"""Activation recomputation: which forward operators run again and which kept tensors that brings back.

Whole layers and the attention core as in Korthikanti 2022 (arXiv 2205.05198); single modules as Megatron-Core has them,
where a norm, an activation or an up projection gives up its output, which the next operator would keep; per operator as
in torchtitan (arXiv 2410.06511). What is not kept comes back for one layer at a time, so nothing is ever gained or
lost.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sightline.program.operators import ATTENTION_CORE, Collective, Matmul, Module, Operator, Part
from sightline.program.program import Block
from sightline.program.techniques.context_parallel import RECOMPUTED
from sightline.quantities import Number, anywhere, larger, smaller
from sightline.scenario.techniques import Recomputation

CORE_PARTS: frozenset[Part] = frozenset(
    {
        "scores",
        "softmax",
        "alibi",
        "dropout",
        "context",
        "flash attention",
        "selected attention",
        "capped scores",
        *RECOMPUTED,
    }
)
"""The attention core: cheap to recompute, large to keep."""
PROJECTIONS = ("qkv", "rope")
WHOLE = {"mlp": ("mlp",), "shared_experts": ("shared experts",), "moe": ("router", "experts", "shared experts")}
"""Modules that run again from their input, which is kept."""
FED_BY_NORM = ("qkv", "mlp", "shared experts")
"""Modules whose first matmul keeps what a norm has put out."""
FED_BY_ACTIVATION: Mapping[str, Module] = {"activation": "mlp", "moe_activation": "experts"}
"""Modules whose down projection keeps what their activation has put out."""


def with_recompute(
    block: Block,
    how: Recomputation | None,
    input_bytes: Number,
    core_input_bytes: Number,
    *,
    stops_early: bool,
    share: Number = 1.0,
) -> Block:
    """Return ``block`` (a layer) with what ``how`` says run again; ``share`` of its layers do.

    A whole layer starts from its input, of ``input_bytes``; the attention core from queries, keys and values,
    ``core_input_bytes`` of them. What runs again ends, stopping early, at the last operator that keeps something.
    """
    if how is None:
        return block
    forward = list(block.forward)
    if not how.modules:
        again = _up_to_last_kept(forward) if stops_early else forward
        freed = _kept(forward) - input_bytes / how.together
        return replace(
            block, recomputed=again, freed_bytes=freed, recomputed_share=share, recomputed_together=how.together
        )
    if "per_op" in how.modules:
        again, kept = _every_other_product(forward, input_bytes, core_input_bytes)
        freed = larger(_kept(forward) - kept, 0.0)
        return replace(block, recomputed=again, freed_bytes=freed, recomputed_share=share)
    again = _again(forward, how.modules, stops_early=stops_early)
    freed = _freed(forward, how.modules, input_bytes, core_input_bytes)
    return replace(block, recomputed=again, freed_bytes=freed, recomputed_share=share)


def _again(forward: Sequence[Operator], modules: frozenset[str], *, stops_early: bool) -> list[Operator]:
    """The operators that run again, in order."""
    chosen: list[Operator] = []
    for word, parts in WHOLE.items():
        if word in modules:
            inside = [op for op in forward if op.module in parts]
            chosen += _up_to_last_kept(inside) if stops_early else inside
    if "layernorm" in modules:
        chosen += [op for op in forward if op.part == "norm"]
    if modules & {"core_attention", "attention"}:
        chosen += _core(forward)
    if modules & {"qkv", "attention"}:
        chosen += [op for op in forward if op.module in PROJECTIONS]
    if "latent_up" in modules:
        chosen += [
            op for op in forward if op.module == "rope" or _is(op, "qkv", "query up", "key, value up", "heads joined")
        ]
    for word, module in FED_BY_ACTIVATION.items():
        if word in modules:
            chosen += [op for op in forward if _is(op, module, "activation")]
    identities = {id(op) for op in chosen}
    return [op for op in forward if id(op) in identities]


def _freed(
    forward: Sequence[Operator], modules: frozenset[str], input_bytes: Number, core_input_bytes: Number
) -> Number:
    """Bytes of kept tensors that come back with what runs again."""
    total = _kept({id(op): op for op in _giving_up(forward, modules)}.values())
    if "moe" in modules and any(op.module == "router" for op in forward):
        # The input, which a router does not keep.
        total = total - input_bytes
    core = _kept(_core(forward))
    inputs = smaller(core_input_bytes, core)
    if modules & {"core_attention", "attention"}:
        total = total + core - inputs
    if modules & {"qkv", "attention", "latent_up"}:
        total = total + inputs
    return total


def _giving_up(forward: Sequence[Operator], modules: frozenset[str]) -> Iterator[Operator]:
    """The operators, but for the attention core, whose kept tensors all come back."""
    for word, parts in WHOLE.items():
        if word in modules:
            inside = _keeping(op for op in forward if op.module in parts)
            yield from inside if word == "moe" else inside[1:]
    if "layernorm" in modules:
        for module in FED_BY_NORM:
            yield from _keeping(op for op in forward if op.module == module)[:1]
        yield from (op for op in forward if _is(op, "router", "router"))
    if modules & {"qkv", "attention"}:
        yield from _keeping(op for op in forward if op.module in PROJECTIONS)[1:]
    if "attention" in modules:
        yield from (op for op in forward if op.module == "output projection")
    for word, module in FED_BY_ACTIVATION.items():
        if word in modules:
            yield from (op for op in forward if _is(op, module, "down"))


def _every_other_product(
    forward: Sequence[Operator], input_bytes: Number, core_input_bytes: Number
) -> tuple[list[Operator], Number]:
    """What runs again, and the bytes kept, where a layer's input, attention's output and every other product stay.

    Products are counted as models write them, queries, keys and values each as one; after a tensor-parallel region what
    is summed is kept too.
    """
    again: list[Operator] = []
    kept: Number = input_bytes + _kept(_core(forward)) - core_input_bytes
    number = 0
    needed = {id(op) for op in _up_to_last_kept(forward)}
    for op in forward:
        if isinstance(op, Matmul) and op.module != ATTENTION_CORE:
            shares = op.shares or (1.0,)
            odd = [(number + i) % 2 == 0 for i in range(len(shares))]
            number += len(shares)
            saved = sum(share for share, first in zip(shares, odd, strict=True) if first)
            kept = kept + saved * op.output_bytes * op.batch * op.m * op.n
            if saved < 1.0 and id(op) in needed:
                again.append(replace(op, n=op.n * (1.0 - saved), shares=(1.0,), saved_bytes=0.0))
        elif isinstance(op, Collective) and op.kind == "reduce_scatter":
            kept = kept + op.count * input_bytes
        elif op.module != ATTENTION_CORE and id(op) in needed:
            again.append(op)
        if op.module == "output projection":
            kept = kept + op.saved_bytes
    return again, kept


def _core(forward: Iterable[Operator]) -> list[Operator]:
    return [op for op in forward if op.module == ATTENTION_CORE and op.part in CORE_PARTS]


def _is(op: Operator, module: Module, *parts: Part) -> bool:
    return op.module == module and op.part in parts


def _kept(operators: Iterable[Operator]) -> Number:
    return sum((op.count * op.saved_bytes for op in operators), 0.0)


def _keeping(operators: Iterable[Operator]) -> list[Operator]:
    return [op for op in operators if anywhere(op.saved_bytes > 0)]


def _up_to_last_kept(forward: Sequence[Operator]) -> list[Operator]:
    last = max((i for i, op in enumerate(forward) if anywhere(op.saved_bytes > 0)), default=0)
    return list(forward[:last])
