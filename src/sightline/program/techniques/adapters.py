"""Low-rank adapters (arXiv 2106.09685): two low-rank matmuls forward, four backward, and the kernels around them.

``y = W x + alpha / r * B A dropout(x)``. What else runs beside a matrix is the trainer's (`Adapters` of a framework).
Where adapters are kept in fp32 next to 16-bit weights autocast takes both matrices down, and an input that was cast up
for them too (peft). LitGPT joins the adapters of one matrix: one dropout and one ``A`` for all, and an update that is
padded with zeros to the matrix's whole width. A compiler leaves the products: the dropped input, the scaled gradient
and the sums are written and read by the kernels next to them.

Tensor parallelism splits both matrices: ``A`` like the projection, ``B`` by its outputs (NeMo's
``ParallelLinearAdapter``). Next to a column-split projection a rank makes a piece of the low-rank activation, which is
gathered; next to a row-split one a partial sum of it, which is added up. ``B`` makes a piece of the outputs, which
row-split projections need whole, or split by tokens with sequence parallelism. All of it is exchanged in 16 bits and
overlaps nothing.
"""

from collections.abc import Sequence

from sightline.content import record
from sightline.program.operators import ADAPTER_CHAIN, Module, Operator, collective
from sightline.program.program import Step, elementwise
from sightline.program.shapes import TrainingShapes
from sightline.program.techniques.tensor_parallel import enter_region, gathered, hook_calls
from sightline.quantities import Number, larger
from sightline.scenario import Adapter, LayerKind, Model
from sightline.scenario.cluster import CollectiveKind
from sightline.scenario.techniques import JOINED

QKV = ("query", "key", "value")
ROW_SPLIT: tuple[tuple[str, ...], ...] = (("output",), ("down",))
"""Projections whose inputs tensor parallelism cuts; it cuts the outputs of the others."""


@record
class AdapterShape:
    """One adapter: ``inputs`` to ``rank`` to ``outputs``; several joined ones as one."""

    inputs: Number
    outputs: Number
    rank: Number
    """Width that ``A`` makes on one device."""
    group_rank: Number
    """Rank that each output sees."""
    added: Number
    """Outputs per token that are scaled and added on one device."""
    sums: bool = False
    """Beside a row-split projection, whose inputs lie on all tensor-parallel ranks."""
    padded: Number = 0.0
    """Width of the matrix that the update is padded to, or 0."""

    @property
    def parameters(self) -> Number:
        """Elements of both matrices."""
        return self.rank * self.inputs + self.group_rank * self.outputs


def adapters_of(
    x: TrainingShapes, inputs: Number, outputs: Number, targets: Sequence[str], shares: Sequence[float]
) -> list[AdapterShape]:
    """Return the adapters next to a matmul whose outputs are the projections ``targets`` in the parts ``shares``.

    A projection without a part is none: values that are keys (Gemma 4) have no adapter.
    """
    adapter = x.trained.adapter
    if adapter is None:
        return []
    chosen = adapter.projections(gated=x.model.gated)
    r = adapter.rank * 1.0
    if targets in ROW_SPLIT:
        cut = outputs / x.t
        row_split = AdapterShape(inputs=inputs, outputs=cut, rank=r, group_rank=r, added=outputs / x.r, sums=True)
        return [row_split] if targets[0] in chosen else []
    if JOINED in chosen and targets == QKV:
        return [AdapterShape(inputs=inputs, outputs=outputs, rank=r / x.t, group_rank=r, added=outputs)]
    widths = [outputs * share for target, share in zip(targets, shares, strict=True) if share and target in chosen]
    if widths and x.framework.adapters.joined and targets == QKV:
        total = sum(widths)
        padded = outputs if len(widths) < len(targets) else 0.0
        rank = r * len(widths) / x.t
        return [AdapterShape(inputs=inputs, outputs=total, rank=rank, group_rank=r, padded=padded, added=total)]
    return [AdapterShape(inputs=inputs, outputs=width, rank=r / x.t, group_rank=r, added=width) for width in widths]


def enter_adapted(x: TrainingShapes, module: Module, targets: tuple[str, ...]) -> list[Operator]:
    """Forward before the column-split projections ``targets``: with sequence parallelism the sequence is gathered.

    An adapter takes the norm's output as it is, so that is gathered before it is quantized and before any product runs
    (TransformerEngine's ``return_layernorm_output_gathered``).
    """
    adapter = x.trained.adapter
    if adapter is None or not adapters_of(x, 1.0, 1.0, targets, (1.0,) * len(targets)):
        return enter_region(x, module)
    return gathered(x, module, x.hidden_bytes, "nothing")


def adapter_steps(x: TrainingShapes, module: Module, shape: AdapterShape, *, input_is_kept: bool) -> list[Step]:
    """Return an adapter's steps: element-wise kernels, two low-rank matmuls forward and four backward, and exchanges.

    ``input_is_kept`` where another one has kept the same input.
    """
    tokens = x.tokens
    kept = (
        0.0
        if input_is_kept and not (_dropout(x) or _casts_input(x) or _casts_down(x, module))
        else x.element_bytes * tokens * shape.inputs
    )
    hooks = hook_calls(x, trained=True)
    a = x.product(module, "adapter A", tokens, shape.rank, shape.inputs, saved_bytes=kept, host_calls=hooks.forward)
    narrow = x.element_bytes * tokens * shape.rank
    b = x.product(
        module, "adapter B", tokens, shape.outputs, shape.group_rank, saved_bytes=narrow, host_calls=hooks.forward
    )
    back = [
        x.product(
            module, "adapter B", shape.outputs, shape.group_rank, tokens, "weight gradient", input_row=shape.outputs
        ),
        x.product(
            module, "adapter B", tokens, shape.group_rank, shape.outputs, "input gradient", host_calls=hooks.backward
        ),
        x.product(module, "adapter A", shape.rank, shape.inputs, tokens, "weight gradient", input_row=shape.inputs),
        x.product(module, "adapter A", tokens, shape.inputs, shape.rank, "input gradient", host_calls=hooks.backward),
    ]
    around = _around(x, module, shape)
    return [
        Step((*around.forward, a, b), (*around.backward, *back), adapter_parameters=shape.parameters),
        Step(exchange_forward(x, module, shape), exchange_backward(x, module, shape)),
    ]


def _around(x: TrainingShapes, module: Module, shape: AdapterShape) -> Step:
    """What surrounds an adapter's matmuls: casts, dropout, scaling and addition, padding of joined updates."""
    e, tokens, code = x.element_bytes, x.tokens, x.framework.adapters
    drops, casts, casts_input, pads = _dropout(x), _casts(x), _casts_input(x), shape.padded > 0
    down = _casts_down(x, module)
    wide = 4.0 if down else e
    inputs, outputs, padded = tokens * shape.inputs, tokens * shape.added, e * tokens * shape.padded
    accumulation = x.framework.kernels.accumulation_traffic * shape.parameters
    weights = casts * (4.0 + e) * shape.parameters
    if code.fused:
        there, back = weights + e * drops * inputs + e * outputs, weights + e * (outputs + inputs) + accumulation
        return elementwise(module, ADAPTER_CHAIN, inputs, (there, back), (2.0 * casts, 2.0 + 2.0 * casts))
    # Up and down again around the dropout.
    cast_bytes = weights + (2.0 * casts_input + down) * (4.0 + e) * inputs
    dropped = 2.0 * (4.0 * casts_input + wide * (1.0 - casts_input)) * drops * inputs + drops * inputs
    copied = 1.0 * (x.trained.quantization in code.copies_output)
    calls = drops + 2.0 * casts + 2.0 * casts_input + down + code.padding_launches * pads
    return elementwise(
        module,
        ADAPTER_CHAIN,
        inputs,
        (
            cast_bytes
            + dropped
            + (3.0 * e + (2.0 + 2.0 * copied) * wide) * outputs
            + 2.0 * padded
            + 2.0 * e * outputs * pads,
            cast_bytes
            + dropped
            + (2.0 * e + down * (4.0 + e)) * outputs
            + 3.0 * wide * inputs
            + accumulation
            + 2.0 * padded,
        ),
        (2.0 + copied + calls, 4.0 + calls + down),
        saved_bytes=drops * inputs + e * outputs * pads,
    )


def keeps_input(x: TrainingShapes, target: str) -> bool:
    """Whether the projection ``target`` keeps its very input for the backward pass, and no copy of it or nothing."""
    if x.low is not None:
        return False
    adapter = x.trained.adapter
    if x.trained.projections or (x.trained.quantization != "none" and x.framework.litgpt.quantized_keeps_inputs):
        return True
    has = adapter is not None and target in adapter.projections(gated=x.model.gated)
    return has and not _dropout(x) and not _casts_input(x) and not x.trained.upcast


def adapter_parameters(model: Model, adapter: Adapter) -> Number:
    """Parameters of all adapters of the whole model: rank times inputs and outputs of each target, in every layer."""
    targets = adapter.projections(gated=model.gated)
    widths = ((kind.count, _widths(model, kind)) for kind in model.kinds)
    return adapter.rank * sum(
        n * sum(sum(by_target[target]) for target in targets if target in by_target) for n, by_target in widths
    )


def _widths(model: Model, kind: LayerKind) -> dict[str, tuple[float, float]]:
    """Inputs and outputs of the projections of a layer that may have adapters, by their words."""
    h, heads = float(model.hidden_size), model.heads_of(kind)
    queries = heads.query_width * (2.0 if model.attention_gate else 1.0)
    own = float(not heads.reused)
    keys, values = heads.key_width * own, heads.value_width * own * (not heads.values_are_keys)
    attention = {
        "query": (h, queries),
        **{word: (h, width) for word, width in (("key", keys), ("value", values)) if width},
        JOINED: (h, queries + keys + values),
        "output": (float(heads.output_width), h),
    }
    experts = model.experts if kind.mlp == "experts" else None
    f = float(model.width_of(kind) if experts is None else experts.shared * experts.shared_width)
    mlp = {"gate": (h, f), "up": (h, f), "down": (f, h)} if f and kind.mlp != "none" else {}
    return {**(attention if kind.mixer != "none" else {}), **mlp}


def _dropout(x: TrainingShapes) -> float:
    return 1.0 * (x.trained.adapter is not None and x.trained.adapter.dropout > 0)


def _casts(x: TrainingShapes) -> float:
    """1.0 where adapters are kept in more bytes than the compute dtype has."""
    return 1.0 * (x.framework.memory.adapter_states.weights > x.element_bytes)


def _casts_input(x: TrainingShapes) -> float:
    """1.0 where an adapter's input is cast to its format, and by autocast back."""
    return _casts(x) * (x.trained.quantization == "none" or x.framework.adapters.casts_quantized_inputs)


def _casts_down(x: TrainingShapes, module: Module) -> float:
    """1.0 where an adapter's input is fp32 and autocast takes it down; each keeps a copy of its own."""
    return 1.0 * (x.trained.upcast and module != "output projection")


def exchange_forward(x: TrainingShapes, module: Module, shape: AdapterShape) -> list[Operator]:
    """Forward: the low-rank activation made whole, and an adapter's outputs taken to where they are added."""
    narrow = x.element_bytes * x.tokens * shape.group_rank
    if not shape.sums:
        return _exchange(x, module, "all_gather", narrow)
    whole = x.element_bytes * x.tokens * shape.outputs * x.t
    return [*_exchange(x, module, "all_reduce", narrow), *_to_tokens(x, module, whole, always=1.0)]


def exchange_backward(x: TrainingShapes, module: Module, shape: AdapterShape) -> list[Operator]:
    """Backward: gradients taken to the ranks that hold those outputs, and the low-rank gradient added up.

    Without sequence parallelism every rank has the whole gradient of the outputs already.
    """
    narrow = x.element_bytes * x.tokens * shape.group_rank
    back = _to_tokens(x, module, x.element_bytes * x.tokens * shape.outputs * x.t, always=0.0) if shape.sums else []
    return [*back, *_exchange(x, module, "all_reduce", narrow)]


def _to_tokens(x: TrainingShapes, module: Module, whole: Number, *, always: float) -> list[Operator]:
    """Pieces of outputs become pieces of tokens: by an all-to-all, or gathered whole and cut."""
    if not x.framework.transformer_engine.exchanges_adapter_outputs:
        return _exchange(x, module, "all_gather", whole, larger(x.split, always))
    through = _exchange(x, module, "all_to_all", whole / x.t, x.split)
    return [*through, *_exchange(x, module, "all_gather", whole, always * (1.0 - x.split))]


def _exchange(
    x: TrainingShapes, module: Module, kind: CollectiveKind, size: Number, count: Number = 1.0
) -> list[Operator]:
    """A collective of the adapters, where there are ranks and it runs at all."""
    return collective(module, kind, size, count * (x.t > 1), overlapped_with="nothing")
