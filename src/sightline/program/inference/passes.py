"""A pass of inference on one device: embedding, each kind of layer, head."""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.program.address import Module
from sightline.program.inference import attention, mlp, recurrent
from sightline.program.inference.conversion import expanded
from sightline.program.inference.operators import GroupedMatmul
from sightline.program.inference.shapes import PassShapes
from sightline.program.operators import Matmul, Operator
from sightline.scenario import LayerKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """One block kind and how often the model has it."""

    name: str
    count: int
    operators: Sequence[Operator]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pass:
    """What one pass executes on one device, all layers of the model counted."""

    embedding: Block
    layers: Sequence[Block]
    head: Block

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The block kinds in order of execution."""
        return (self.embedding, *self.layers, self.head)


def write_pass(x: PassShapes) -> Pass:
    """Return the operators of one pass, block kind by block kind."""
    return Pass(
        embedding=Block(name="embedding", count=1, operators=_embedding(x)),
        layers=[
            Block(name=_name(x, kind), count=kind.count, operators=_quantized(x, expanded(x, _layer(x, kind))))
            for kind in x.model.kinds
        ],
        head=Block(name="head", count=1, operators=_head(x)),
    )


def _name(x: PassShapes, kind: LayerKind) -> str:
    """A kind's name: layer where there is one kind, else what sets it apart."""
    if len(x.model.kinds) == 1:
        return "layer"
    return ", ".join(part for part in (kind.mixer, kind.mlp) if part != "none")


def _embedding(x: PassShapes) -> list[Operator]:
    lookup = x.stream("embedding", "embedding", 2.0 * x.tokens * x.h)
    return [lookup, *x.collective("embedding", "all_reduce", x.hidden_bytes)]


def _layer(x: PassShapes, kind: LayerKind) -> list[Operator]:
    """A mixer and an MLP, each behind a norm and ended by a sum over ranks; in a parallel block they share both."""
    experts = kind.mlp == "experts"
    mixer = _mixer(x, kind) if kind.mixer != "none" else []
    second = (mlp.experts(x) if experts else mlp.dense(x, float(x.model.width_of(kind)))) if kind.mlp != "none" else []
    module: Module = "experts" if experts else "mlp"
    if x.model.parallel_block:
        return [*_norm(x, "attention norm"), *mixer, *second, *_leave(x, module, bias=False)]
    operators: list[Operator] = []
    if mixer:
        operators += [*_norm(x, "attention norm"), *mixer, *_leave(x, "output projection", bias=x.model.output_bias)]
    if second:
        operators += [*_norm(x, "mlp norm"), *second, *_leave(x, module, bias=x.model.mlp_bias)]
    return operators


def _quantized(x: PassShapes, operators: Sequence[Operator]) -> list[Operator]:
    """The same with inputs of matmuls brought to fewer bits, unless the kernels before them do so on their way."""
    if x.fuses("quantization"):
        return list(operators)
    return [each for op in operators for each in (*_quantization(x, op), op)]


def _quantization(x: PassShapes, op: Operator) -> list[Operator]:
    """The kernel that quantizes the input of a matmul; nothing before one that takes it as it is."""
    if not isinstance(op, Matmul | GroupedMatmul) or op.element_bytes >= x.element_bytes:
        return []
    inputs = op.batch * op.m * op.k if isinstance(op, Matmul) else op.rows * op.k
    elements = inputs * (1.0 + op.element_bytes / x.element_bytes)
    return [x.stream(op.module, "copy", elements, part="quantization", count=op.count)]


def _mixer(x: PassShapes, kind: LayerKind) -> list[Operator]:
    match kind.mixer:
        case "linear":
            return recurrent.gated_delta(x)
        case "state-space":
            return recurrent.state_space(x)
        case "compressed":
            return attention.compressed_attention(x, kind)
        case _ if x.model.latent is not None and kind.mixer in ("latent", "sparse"):
            return attention.latent_attention(x, kind)
        case _:
            return attention.attention(x, kind)


def _norm(x: PassShapes, module: Module) -> list[Operator]:
    """A norm with the residual before it, in as many kernels as the engine needs.

    RMS norms come with the residual in one kernel, layer norms only where the engine has such a kernel ("layernorm");
    unfused, a norm takes seven kernels in fp32.
    """
    elements = x.tokens * x.h
    if x.fuses("norm") and (x.model.norm == "rmsnorm" or x.fuses("layernorm")):
        return [x.stream(module, "norm", 4.0 * elements)]
    residual = x.stream("residual", "residual", 3.0 * elements)
    if x.fuses("norm"):
        return [residual, x.stream(module, "norm", 2.0 * elements)]
    return [residual, x.stream(module, "norm", 18.0 * elements, kernels=7.0, part="unfused norm")]


def _leave(x: PassShapes, module: Module, *, bias: bool) -> list[Operator]:
    """Partial sums of a row-split projection are added up, then its bias, if no other kernel takes that along."""
    sums = x.collective(module, "all_reduce", x.hidden_bytes)
    apart = bias and bool(sums) and not x.fuses("layernorm")
    return [*sums, *([x.stream(module, "residual", 2.0 * x.tokens * x.h, part="bias")] if apart else [])]


def _head(x: PassShapes) -> list[Operator]:
    """The last norm, the logits of the tokens that are wanted, and the choice of the next token."""
    rows, vocabulary = x.b * x.logits, float(x.model.vocab_size)
    return [
        *_norm(x, "final norm"),
        x.matmul("head", "logits", rows, vocabulary / x.t, x.h, x.formats.parts["head"]),
        *x.collective("head", "all_gather", x.element_bytes * rows * vocabulary),
        x.stream("head", "sampling", 6.0 * rows * vocabulary, kernels=4.0),
    ]
