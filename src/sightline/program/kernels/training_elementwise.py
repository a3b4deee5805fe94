"""Bandwidth-bound kernels of training, in bytes as fused or separate kernels really move them.

Symbols: ``e`` bytes of an element, ``n`` elements.

Several residual streams (hyper-connections, arXiv 2409.19606; constrained as in DeepSeek V4, arXiv 2512.24880): a block
reads a mix of ``n`` streams and its output is added to all of them, which are mixed among themselves; the mixing
depends on the token: one product of the normed streams with ``n (n + 2)`` columns, in fp32. One stream is the ordinary
residual.
"""

from sightline.program.address import Module, Part
from sightline.program.kernels.training_linear import TrainingLinear
from sightline.program.program import LinearLayer, Step, elementwise
from sightline.quantities import Number

LATENT_ROPE = "latent-rope"
"""What a framework fuses that rotates, joins and cuts the heads in one kernel for queries and one for keys and values
(Megatron-Core's fused_mla_yarn_rope_apply, which is experimental there)."""
SINKHORN_KERNELS = 3.0
"""Sigmoids, and the rounds that make the mixing doubly stochastic in one kernel."""


class TrainingElementwise(TrainingLinear):
    """Norms, rotary embedding, activations, residuals."""

    __slots__ = ()

    def read_residual(self, module: Module, *, first: bool) -> list[Step]:
        """Before a half of a layer: its norm, which the MLP may share with attention, and what it reads of streams."""
        return [*_read_streams(self), *([self.norm(module)] if first or self.model.layer_norms > 1 else [])]

    def write_residual(self, module: Module) -> list[Step]:
        """Behind a half of a layer: a second norm, and the residual addition or its counterpart over streams."""
        second = [self.norm(module)] if self.model.layer_norms > 2 else []
        return [*second, *(_write_streams(self) or [self.residual()])]

    def norm(self, module: Module, part: Part = "norm", elements: Number | None = None, calls: float = 1.0) -> Step:
        """A norm of the hidden activation, or over ``elements``; LayerNorm is one kernel of PyTorch's own.

        An RMSNorm that nobody fuses upcasts, squares, averages, scales and casts back in seven kernels; backward ten of
        them are for the input and four for the weight, whose gradient needs the normed input in 16 bits.
        """
        e, rest = self.element_bytes, self.trained.rest
        n = self.residual_bytes / e if elements is None else elements
        if self.fuses("norm") or self.model.norm == "layernorm":
            sizes, kernels = (2.0 * e * n, 4.0 * e * n), (1.0, 2.0)
            saved = e * n
        else:
            sizes, kernels = ((28.0 + 4.0 * e) * n, (48.0 + 8.0 * e) * n), (7.0, 10.0 + 4.0 * rest)
            saved = (4.0 + e * rest) * n
        return elementwise(module, part, n, sizes, (calls * kernels[0], calls * kernels[1]), saved_bytes=saved)

    def head_norm(self) -> Step:
        """Norms of the query and key heads, a call for each."""
        return self.norm("qkv", "head norm", self.tokens * (self.query_width + self.key_width), calls=2.0)

    def latent_norm(self, width: Number, norms: float = 1.0) -> Step:
        """Norms of latent vectors of ``width`` elements together, on every rank's piece of the sequence."""
        return self.norm("qkv", elements=width * self.piece_tokens)

    def rope(self, width: Number, *, latent: bool = False) -> Step:
        """Rotary embedding of ``width`` elements per token: read and write.

        Unfused it slices, negates, joins, multiplies and adds; in complex numbers it is a cast to fp32, one product and
        a cast back, of queries and of keys.
        """
        elements = self.tokens * width
        if self.fuses(LATENT_ROPE if latent else "rope"):
            passes, kernels = 2.0, 2.0
        else:
            passes, kernels = (10.0, 6.0) if self.framework.native.complex_rope else (9.0, 10.0)
        moved = passes * self.element_bytes * elements
        return elementwise("rope", "rope", elements, (moved, moved), (kernels, kernels))

    def activation(self, width: Number, *, module: Module = "mlp", rows: Number | None = None) -> Step:
        """GELU, ReLU or SwiGLU over ``width`` elements of each of ``rows`` (the tokens); the inputs are kept.

        Eager PyTorch squares ReLU in a second kernel, whose gradient it makes as grad * (2 * x ** 1), each a kernel.
        """
        n = (self.tokens if rows is None else rows) * width
        tensor = self.element_bytes * n
        if self.model.gated:
            fused = self.fuses("activation")
            there, back, kept = (3.0, 5.0, 2.0) if fused else (5.0, 9.0, 3.0)
            kernels = (1.0, 1.0) if fused else (2.0, 3.0)
        else:
            squares = self.model.activation == "relu2" and not self.fuses("squared-relu")
            there, back, kept = (4.0, 10.0, 1.0) if squares else (2.0, 3.0, 1.0)
            kernels = (2.0, 4.0) if squares else (1.0, 1.0)
        return elementwise(module, "activation", n, (there * tensor, back * tensor), kernels, saved_bytes=kept * tensor)

    def residual(self) -> Step:
        """Bias, dropout and residual addition.

        A dropout keeps one byte per element and is a kernel of its own unless fused.

        Backward the branch's masked gradient, and the sum of the branches' gradients.
        """
        size, drops = self.residual_bytes, self.model.dropout > 0
        n = size / self.element_bytes
        kernels = 2.0 if drops and not self.fuses("bias-dropout-add") else 1.0
        back = (5.0 if drops else 3.0) * size + n * drops
        return elementwise(
            "residual",
            "residual",
            n,
            ((1.0 + 2.0 * kernels) * size + n * drops, back),
            (kernels, 2.0 if drops else 1.0),
            saved_bytes=n * drops,
        )

    def gate(self) -> list[Step]:
        """The context times a sigmoid of the gate that was projected with the queries, where the model has one."""
        if not self.model.attention_gate:
            return []
        n = self.tokens * self.context_width
        size = self.element_bytes * n
        return [elementwise("attention core", "gate", n, (3.0 * size, 5.0 * size), (2.0, 2.0), saved_bytes=2.0 * size)]

    def gated_norm(self, module: Module, width: Number) -> Step:
        """A norm of ``width`` elements per token times the activation of as wide a gate, in one kernel.

        Both are kept.
        """
        n = self.tokens * width
        size = self.element_bytes * n
        return elementwise(module, "gated norm", n, (3.0 * size, 5.0 * size), (1.0, 2.0), saved_bytes=2.0 * size)


def _read_streams(x: TrainingLinear) -> list[Step]:
    """Return what stands before a block: the streams' norm, the coefficients, and the block's input."""
    n = float(x.model.residual_streams)
    if n == 1.0:
        return []
    columns, stream = n * (n + 2.0), x.residual_bytes
    mixed = x.piece_tokens * columns
    return [
        _mix(x, "streams' norm", (n * stream, 3.0 * n * stream), kernels=(2.0, 2.0)),
        x.linear(LinearLayer("residual", "coefficients", n * x.h, columns, kept=0.0, rows=x.piece_tokens)),
        _mix(
            x, "mixing", (32.0 * mixed, 64.0 * mixed), kernels=(SINKHORN_KERNELS, SINKHORN_KERNELS), saved=8.0 * mixed
        ),
        # The streams are kept, for this sum and for the mixing behind the block.
        _mix(x, "streams read", ((n + 1.0) * stream, (3.0 * n + 1.0) * stream), saved=n * stream),
    ]


def _write_streams(x: TrainingLinear) -> list[Step]:
    """Return what takes the place of the residual addition behind a block; its output is kept."""
    n, stream = float(x.model.residual_streams), x.residual_bytes
    if n == 1.0:
        return []
    return [_mix(x, "streams written", ((2.0 * n + 1.0) * stream, (3.0 * n + 2.0) * stream), saved=stream)]


def join_streams(x: TrainingLinear) -> list[Step]:
    """Return how the streams become one vector before the last norm."""
    n, stream = float(x.model.residual_streams), x.residual_bytes
    if n == 1.0:
        return []
    return [
        x.linear(LinearLayer("head", "coefficients", n * x.h, n, rows=x.piece_tokens)),
        _mix(x, "streams joined", ((n + 1.0) * stream, (3.0 * n + 1.0) * stream), kernels=(1.0, 1.0)),
    ]


def _mix(
    x: TrainingLinear,
    part: Part,
    traffic_bytes: tuple[Number, Number],
    kernels: tuple[float, float] = (1.0, 2.0),
    saved: Number = 0.0,
) -> Step:
    elements = x.residual_bytes / x.element_bytes * x.model.residual_streams
    return elementwise("residual", part, elements, traffic_bytes, kernels, saved_bytes=saved)
