"""Low-rank adapters (arXiv 2106.09685): two one matmuls forward, four backward, and the chains between them.

``y = W x + alpha / r * B A dropout(x)``. Where adapters are kept in fp32 beside 16-bit weights their input is cast up
for them and down again by autocast (peft). LitGPT joins the adapters of one matrix: one dropout and one ``A`` for all,
and an update that is padded with zeros to the matrix's whole width.

Tensor parallelism cuts both matrices: ``A`` like the projection beside it, ``B`` by its outputs (NeMo's
``ParallelLinearAdapter``); `sightline.program.techniques.adapter_exchange` says what the ranks exchange for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.program.address import Direction, Module, Part
from sightline.program.operators import Elementwise, Matmul, Operator
from sightline.program.training_shapes import TrainingShapes
from sightline.quantities import Number
from sightline.scenario import Adapter, LayerKind, Model
from sightline.scenario.adapter import JOINED

QKV = ("query", "key", "value")
ROW_SPLIT: tuple[tuple[str, ...], ...] = (("output",), ("down",))
"""Projections whose inputs tensor parallelism cuts; it cuts the outputs of the others."""

PADDING_LAUNCHES = 16.0
"""Launches' worth of host time of a joined update: a grouped convolution, transposes, zeros and an indexed copy (LitGPT's
LLaMA-Adapter, which has none of it, takes 1.9 ms less per layer)."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """Return the adapters beside a matmul whose outputs are the projections ``targets`` in the parts ``shares``.

    A projection without a part is none: values that are keys (Gemma 4) have no adapter.
    """
    adapter = x.trained.adapter
    if adapter is None:
        return []
    chosen = adapter.projections(gated=x.model.gated)
    r = adapter.rank * 1.0
    if targets in ROW_SPLIT:
        cut = outputs / x.t
        one = AdapterShape(inputs=inputs, outputs=cut, rank=r, group_rank=r, added=outputs / x.r, sums=True)
        return [one] if targets[0] in chosen else []
    if JOINED in chosen and targets == QKV:
        return [AdapterShape(inputs=inputs, outputs=outputs, rank=r / x.t, group_rank=r, added=outputs)]
    widths = [outputs * share for target, share in zip(targets, shares, strict=True) if share and target in chosen]
    if widths and x.framework.litgpt.joins_adapters and targets == QKV:
        total = sum(widths)
        padded = outputs if len(widths) < len(targets) else 0.0
        rank = r * len(widths) / x.t
        return [AdapterShape(inputs=inputs, outputs=total, rank=rank, group_rank=r, padded=padded, added=total)]
    return [AdapterShape(inputs=inputs, outputs=width, rank=r / x.t, group_rank=r, added=width) for width in widths]


def adapter_forward(x: TrainingShapes, module: Module, one: AdapterShape, *, input_is_kept: bool) -> list[Operator]:
    """Return one adapter's forward operators; ``input_is_kept`` where another one has kept the same input."""
    e, tokens = x.element_bytes, x.tokens
    dropout, casts = _dropout(x), _casts(x)
    copied = dropout or casts
    inputs, outputs = tokens * one.inputs, tokens * one.added
    kept = 0.0 if input_is_kept and not copied else e * inputs
    # Up and down again around the dropout, and both matrices down.
    cast_bytes = casts * (4.0 + e) * (2.0 * inputs + one.parameters)
    around = casts * 4.0 * dropout + (1.0 - casts) * e * dropout
    padding = e * tokens * (2.0 * one.padded + 2.0 * one.added * (one.padded > 0))
    return [
        Elementwise(
            module=module,
            part="adapter chain",
            traffic_bytes=cast_bytes + 2.0 * around * inputs + dropout * inputs + 5.0 * e * outputs + padding,
            kernels=2.0 + 4.0 * casts + dropout + PADDING_LAUNCHES * (one.padded > 0),
            saved_bytes=dropout * inputs + e * outputs * (one.padded > 0),
            elements=inputs,
        ),
        _matmul(x, module, "adapter A", tokens, one.rank, one.inputs, saved_bytes=kept),
        _matmul(x, module, "adapter B", tokens, one.outputs, one.group_rank, saved_bytes=e * tokens * one.rank),
    ]


def adapter_backward(x: TrainingShapes, module: Module, one: AdapterShape) -> list[Operator]:
    """Return one adapter's backward operators: four one matmuls and the gradients of the chains."""
    e, tokens = x.element_bytes, x.tokens
    dropout, casts = _dropout(x), _casts(x)
    inputs, outputs = tokens * one.inputs, tokens * one.added
    cast_bytes = casts * (4.0 + e) * (2.0 * inputs + one.parameters)
    around = 2.0 * (4.0 * casts + e * (1.0 - casts)) * dropout * inputs + dropout * inputs
    accumulation = x.framework.kernels.accumulation_traffic * one.parameters
    return [
        Elementwise(
            module=module,
            part="adapter chain",
            direction="backward",
            traffic_bytes=cast_bytes
            + around
            + 2.0 * e * outputs
            + 3.0 * e * inputs
            + accumulation
            + 2.0 * e * tokens * one.padded,
            kernels=4.0 + 4.0 * casts + dropout + PADDING_LAUNCHES * (one.padded > 0),
            elements=inputs,
        ),
        _matmul(
            x, module, "adapter B", one.outputs, one.group_rank, tokens, row=one.outputs, direction="weight gradient"
        ),
        _matmul(x, module, "adapter B", tokens, one.group_rank, one.outputs, direction="input gradient"),
        _matmul(x, module, "adapter A", one.rank, one.inputs, tokens, row=one.inputs, direction="weight gradient"),
        _matmul(x, module, "adapter A", tokens, one.inputs, one.rank, direction="input gradient"),
    ]


def keeps_input(x: TrainingShapes, target: str) -> bool:
    """Whether the projection ``target`` keeps its very input for the backward pass, and no copy of it or nothing."""
    if x.low is not None:
        return False
    adapter = x.trained.adapter
    if x.trained.projections or (x.trained.quantization != "none" and x.framework.litgpt.quantized_keeps_inputs):
        return True
    has = adapter is not None and target in adapter.projections(gated=x.model.gated)
    return has and not _dropout(x) and not _casts(x)


def adapter_parameters(model: Model, adapter: Adapter) -> Number:
    """Parameters of all adapters of the whole model: rank times inputs and outputs of each target, in every layer."""
    targets = adapter.projections(gated=model.gated)
    return adapter.rank * sum(kind.count * _target_widths(model, kind, targets) for kind in model.kinds)


def _target_widths(model: Model, kind: LayerKind, targets: Sequence[str]) -> float:
    """Inputs and outputs of the projections ``targets`` of one layer, added up."""
    widths = _widths(model, kind)
    return sum(sum(widths[target]) for target in targets if target in widths)


def _widths(model: Model, kind: LayerKind) -> dict[str, tuple[float, float]]:
    """Inputs and outputs of the projections of a layer that may have adapters, by their words."""
    h, heads = float(model.hidden_size), model.heads_of(kind)
    queries = heads.query_width * (2.0 if model.attention_gate else 1.0)
    keys, values = float(heads.key_width), heads.value_width * float(not heads.values_are_keys)
    attention = {
        "query": (h, queries),
        "key": (h, keys),
        **({"value": (h, values)} if values else {}),
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


def _matmul(
    x: TrainingShapes,
    module: Module,
    part: Part,
    m: Number,
    n: Number,
    k: Number,
    *,
    saved_bytes: Number = 0.0,
    row: Number | None = None,
    direction: Direction = "forward",
) -> Matmul:
    return Matmul(
        module=module,
        part=part,
        direction=direction,
        m=m,
        n=n,
        k=k,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
        output_bytes=x.element_bytes,
        saved_bytes=saved_bytes,
        input_row=row,
    )
