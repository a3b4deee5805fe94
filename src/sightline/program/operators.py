"""The operators a program is made of. FLOPs and bytes are properties of an operator and need no device.

Sizes are per execution on one device, in elements unless the name says bytes; each may be an array.
"""

from typing import Any, Final, Literal, cast

import numpy as np
from numpy.typing import NDArray

from sightline.content import record
from sightline.quantities import Number, anywhere, smaller
from sightline.scenario.cluster import CollectiveKind

Direction = Literal["forward", "input gradient", "weight gradient", "backward", "update"]
"""What an operator makes: a result; the gradient of a linear layer's input, or what serves that of its weight;
gradients of any other operator's inputs; an update of weights. Conversions and collectives of a backward pass make
results too."""

GRADIENTS_OF_LINEAR: Final[tuple[Direction, ...]] = ("input gradient", "weight gradient")

_MixerModule = Literal["attention norm", "qkv", "rope", "indexer", "attention core", "linear attention", "state space"]
_MlpModule = Literal["mlp norm", "mlp", "router", "experts", "shared experts"]
_OuterModule = Literal["embedding", "output projection", "residual", "final norm", "head", "prediction", "optimizer"]
Module = _MixerModule | _MlpModule | _OuterModule
"""Parts of a model as its authors name them; ``optimizer`` is the step's."""

_Product = Literal["matmul", "up", "down", "query", "key, value", "query up", "key, value up", "key, weights", "qkv"]
_LatentProduct = Literal["absorb query", "expand value", "group down", "to latent", "from latent"]
_RecurrentProduct = Literal["query, key, value, gate", "query, key, value", "decay, strength", "strength, gates down"]
_OtherProduct = Literal["decay up", "gate up", "input", "output", "router", "transform", "logits"]
_LayerInput = Literal["layer inputs", "layer input", "joining"]
_Adapter = Literal["coefficients", "adapter A", "adapter B", "adapter chain"]
_Products = _Product | _LatentProduct | _RecurrentProduct | _OtherProduct | _LayerInput | _Adapter

_Core = Literal["attention", "flash attention", "selected attention", "scores", "context", "values", "probabilities"]
_Blocks = Literal["flash attention to earlier keys", "flash attention of later queries", "chunks joined"]
_EagerCore = Literal["queries", "keys", "softmax", "capped scores", "alibi", "dropout", "layout", "gate"]
_Heads = Literal["heads repeated", "heads joined", "join keys", "cache write", "top-k", "target", "loss", "folding"]
_Recurrent = Literal["conv", "gated delta", "scan", "gated norm", "norm of queries and keys", "decay and strength"]
_Mixing = _Core | _Blocks | _EagerCore | _Heads | _Recurrent

_Norm = Literal["norm", "head norm", "unfused norm", "squares", "rope", "activation", "residual", "bias"]
_Streams = Literal["streams' norm", "mixing", "streams read", "streams written", "streams joined"]
_Experts = Literal["choice", "permutation", "weighted sum", "sum"]
_Outer = Literal["lookup", "embedding", "table", "capped logits", "cross-entropy", "joined", "split"]
_Sampling = Literal["sampling", "temperature", "penalties", "drawing"]
_Sum = Literal["accumulation", "input gradients summed", "pieces summed"]
_Streaming = _Norm | _Streams | _Experts | _Outer | _Sampling | _Sum

_Expansion = Literal["copy", "dequantize", "expand weights", "unpack weights", "widen", "quantization"]
_Operand = Literal["input quantization", "gradient quantization", "weight quantization"]
_Transposition = Literal["operand transposition", "weight transposition"]
_Conversion = _Expansion | _Operand | _Transposition

_Collective = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-recv", "dispatch", "combine"]
_Sequence = Literal["keys and values", "layout of chunks", "heads for tokens", "tokens for heads", "shared keys"]
_Swap = Literal["to heads", "from heads"]
_Exchange = _Collective | _Sequence | _Swap

_Newton = Literal["orthogonalization gram", "orthogonalization square", "orthogonalization product"]
_Update = _Newton | Literal["orthogonalization norm"]

Part = _Products | _Mixing | _Streaming | _Conversion | _Exchange | _Update
"""What an operator does in its module. A fused kernel is called by what it does as a whole."""

_LayerKernel = Literal["norm", "rope", "activation", "scalar activation", "residual", "softmax", "copy", "cache write"]
KernelClass = _LayerKernel | Literal["embedding", "sampling"]
"""Classes of element-wise kernels that devices are calibrated for."""

ADAPTER_PRODUCTS: Final[tuple[Part, ...]] = ("adapter A", "adapter B")
ADAPTER_CHAIN: Final = "adapter chain"
ADAPTER_PARTS: Final[tuple[Part, ...]] = (*ADAPTER_PRODUCTS, ADAPTER_CHAIN)
EXPERT_MODULES: Final[tuple[Module, ...]] = ("experts", "shared experts")
"""Modules whose operators are launched once the numbers of tokens of each expert are known."""
LINEAR_ATTENTION: Final[Module] = "linear attention"
STATE_SPACE: Final[Module] = "state space"
ATTENTION_CORE: Final[Module] = "attention core"


def display_name(part: Part, direction: Direction) -> str:
    """Return what tables call an operator: its part, and which gradient it makes."""
    match direction:
        case "forward" | "update":
            return part
        case "backward":
            return f"{part} gradient"
    if part in ADAPTER_PRODUCTS:
        return f"{part} {direction}"
    return {"bias": "bias gradient", "accumulation": "gradient accumulation"}.get(part, direction)


CollectiveRanks = Literal[
    "tensor", "context", "context heads", "context ring", "expert", "expert tensor", "data", "stages"
]
"""Who takes part: tensor-parallel, context-parallel or data-parallel ranks, those that split the experts, or those
that an expert is split over; of context-parallel ones those that split heads, or neighbors on a ring; of pipeline
stages two neighbors."""

OverlappedWith = Literal["projections", "input gradient", "weight gradient", "attention", "micro-batch", "nothing"]
"""What a collective may overlap with: the projections, where the framework cuts both into chunks; one gradient of its
own module's column-split projections, as far as the framework overlaps them; the kernels of attention that work on what
came before; another micro-batch, where the plan overlaps experts' exchange; nothing."""


@record
class Operator:
    """Something a device executes, at an address: the module it belongs to, its part of it, and what it makes."""

    module: Module
    part: Part
    direction: Direction = "forward"
    count: Number = 1.0
    """Executions per block and micro-batch; 0 masks an operator that a plan does not have."""
    kernels: Number = 1.0
    """Kernels the host launches per execution."""
    host_calls: Number = 0.0
    """Other calls of the host around an execution, hooks for instance, in launches that take as long."""
    saved_bytes: Number = 0.0
    """Tensors that an execution keeps for the backward pass."""
    group: int | None = None
    """Place of the sequences that it works on among the groups of a batch that has several; None: all tokens'."""

    @property
    def name(self) -> str:
        """What tables call it."""
        return display_name(self.part, self.direction)

    @property
    def launches(self) -> Number:
        """Launches of the host per block and micro-batch, and what takes as long."""
        return self.count * (self.kernels + self.host_calls)

    @property
    def backward(self) -> bool:
        """Whether it makes gradients of its inputs, as kernels other than a linear layer's products do."""
        return self.direction == "backward"

    @property
    def flops(self) -> Number:
        """Floating-point operations of matmuls and attention, as PyTorch's counter has them; 0 for the rest."""
        return 0.0

    @property
    def bytes(self) -> Number:
        """Least traffic to and from device memory."""
        return 0.0

    @property
    def network_bytes(self) -> Number:
        """Bytes handed to a collective."""
        return 0.0


@record
class Matmul(Operator):
    """``batch`` products (m x k) (k x n)."""

    m: Number
    n: Number
    k: Number
    batch: Number = 1.0
    dtype: str
    element_bytes: float
    output_bytes: Number
    """Bytes moved per output element: its size, more where the product is added to what is there."""
    input_row: Number | None = None
    """Elements that the inputs hold contiguously next to ``n``; None means ``k``. A weight gradient sums over tokens,
    which are rows, so its inputs are contiguous in ``m`` and ``n``."""
    kernel: str = "16-bit"
    """Format of the operands (`sightline.program.formats`), which chooses the kernel."""
    weight_bytes: float | None = None
    """Bytes per element of the k x n operand; None means ``element_bytes``."""
    stored_bytes: float | None = None
    """The same as it is kept, where it was written out wider for this product; None means ``weight_bytes``."""
    shares: tuple[float, ...] = (1.0,)
    """Parts of a linear layer's outputs that models keep as layers of their own, such as queries, keys and values.
    A processor is charged for products of their own; constants of accelerators were fitted to joined ones."""

    @property
    def makes_own_weight_gradient(self) -> bool:
        """Whether it makes the gradient of a weight of the model itself, not of an adapter."""
        return self.direction == "weight gradient" and self.part not in ADAPTER_PRODUCTS

    @property
    def row(self) -> Number:
        """``input_row``, or ``k``."""
        return self.k if self.input_row is None else self.input_row

    @property
    def flops(self) -> Number:
        """2 m n k per product."""
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def bytes(self) -> Number:
        """Both inputs once and the output."""
        weight_bytes = self.element_bytes if self.weight_bytes is None else self.weight_bytes
        inputs = self.k * (self.element_bytes * self.m + weight_bytes * self.n)
        return self.batch * (inputs + self.output_bytes * self.m * self.n)


@record
class GroupedMatmul(Operator):
    """Products of tokens with the experts they chose: ``rows`` token-expert pairs over ``experts`` local experts."""

    rows: Number
    experts: Number
    active: Number
    """Experts that any token chose (expected)."""
    n: Number
    k: Number
    dtype: str
    element_bytes: float
    weight_bytes: float
    output_bytes: float
    kernel: str
    empty_rows: Number = 0.0
    """Rows without a token that are multiplied too, where the kernel takes whole blocks whatever they hold."""

    @property
    def flops(self) -> Number:
        """2 rows n k."""
        return 2.0 * self.rows * self.n * self.k

    @property
    def bytes(self) -> Number:
        """Rows in and out, and the weights of every active expert once."""
        rows = (self.rows + self.empty_rows) * (self.element_bytes * self.k + self.output_bytes * self.n)
        return rows + self.weight_bytes * self.active * self.n * self.k


@record
class MatrixVector(Matmul):
    """A product of few rows in an engine's own kernel, which unpacks weights and multiplies on the vector units."""

    most_rows: float
    """Rows beyond which the library's kernels take over."""
    on_matrix_units: bool = False
    """Matrix units multiply instead, so that the weights' bytes bind."""


@record
class FusedAttention(Operator):
    """Attention in one kernel that never writes the scores (arXiv 2205.14135, 2307.08691)."""

    batch: Number
    heads: Number
    kv_heads: Number
    head_dim: Number
    """Width of a query and a key head."""
    value_dim: Number
    query_tokens: Number
    context_tokens: Number
    """Keys a query may see at most, its own included."""
    causal: bool | NDArray[np.bool_] = True
    """No query sees the keys of tokens after its own."""
    dtype: str
    element_bytes: float


@record
class FlashAttention(FusedAttention):
    """Attention of training, and its gradients."""

    unseen: Number = 0.0
    """Share of the scores that a mask hides and that is left out by calling the kernel with fewer keys or queries."""

    @property
    def flops(self) -> Number:
        """2 b a s_q s_k (d_k + d_v) forward, 2 b a s_q s_k (3 d_k + 2 d_v) backward, counted without the causal mask.

        What a mask hides counts wherever it is left out, inside the kernel or before it is called.
        """
        if self.backward:
            return 2.0 * self._pairs * (3.0 * self.head_dim + 2.0 * self.value_dim)
        return 2.0 * self._pairs * (self.head_dim + self.value_dim)

    @property
    def _pairs(self) -> Number:
        return self.batch * self.heads * self.query_tokens * self.context_tokens / (1.0 - self.unseen)

    @property
    def bytes(self) -> Number:
        """Queries, keys, values and output once; backward reads them and the gradient and writes three gradients."""
        queries = self.batch * self.query_tokens * self.heads
        keys = self.batch * self.context_tokens * self.kv_heads
        tensors = (queries + keys) * (self.head_dim + self.value_dim)
        return (2.0 if self.backward else 1.0) * tensors * self.element_bytes


@record
class CachedAttention(FusedAttention):
    """Attention of new tokens over cached and new keys and values.

    With few new tokens (decoding) the kernel splits the context over the device; with many (prefill, a chunk of a
    prompt) it walks along it per block of queries.
    """

    window: Number | None = None
    """Last tokens that a query sees; None means all."""
    shared_kv: bool = False
    """Keys and values are one tensor (the latent of MLA), read once."""
    heads_apart: bool = False
    """Each query head walks along its keys and values by itself, on vector units, though heads share them."""
    decode: bool
    cache_bytes: Number
    """Bytes per cached element."""

    @property
    def reach(self) -> Number:
        """Most keys that a query sees."""
        return self.context_tokens if self.window is None else smaller(self.context_tokens, self.window)

    @property
    def width(self) -> Number:
        """Elements that a token caches per head of keys and values."""
        return self.head_dim if self.shared_kv else self.head_dim + self.value_dim

    @property
    def seen(self) -> Number:
        """Mean keys a query sees."""
        q, c = self.query_tokens, self.context_tokens
        mean = c - (q - 1.0) / 2.0
        return mean if self.window is None else smaller(mean, self.window)

    @property
    def flops(self) -> Number:
        """2 b a sq sk (d_k + d_v) over the keys that are seen."""
        pairs = self.batch * self.heads * self.query_tokens * self.seen
        return 2.0 * pairs * (self.head_dim + self.value_dim)

    @property
    def bytes(self) -> Number:
        """Queries and output, and every cached element that any query sees, once."""
        queries = self.batch * self.query_tokens * self.heads * (self.head_dim + self.value_dim)
        widest = (
            self.context_tokens
            if self.window is None
            else smaller(self.context_tokens, self.window + self.query_tokens)
        )
        return queries * self.element_bytes + self.batch * widest * self.kv_heads * self.width * self.cache_bytes


@record
class Elementwise(Operator):
    """A bandwidth-bound kernel, or several: norms, activations, softmax, dropout, copies, optimizer updates."""

    traffic_bytes: Number
    arithmetic: Number = 0.0
    """Vector instructions where they count: exponentials, random numbers."""
    unit_cycles: Number = 0.0
    """Cycles of a compute unit where other instructions bind the kernel, such as branches: as many on every device."""
    kind: str = ""
    """Class of the kernel in a device's element-wise calibration, such as norm or rope; training has one for all."""
    elements: Number = 0.0
    """Elements of the tensor that it works on, by which a processor's measured kernels are looked up."""

    @property
    def bytes(self) -> Number:
        """Bytes read and written by the kernels."""
        return self.traffic_bytes


@record
class Collective(Operator):
    """A collective over one of the plan's groups; the buffer as nccl-tests reports it."""

    kind: CollectiveKind
    buffer_bytes: Number
    ranks: CollectiveRanks = "tensor"
    overlapped_with: OverlappedWith = "projections"
    choices: tuple[float, float, float] | None = None
    """Of an all-to-all that sends a token only once to each rank and each node: how many experts a token chooses, of
    how many, and of which share of their groups. The buffer counts a copy for each rank; ``None`` has one for each
    expert."""

    @property
    def network_bytes(self) -> Number:
        """The buffer."""
        return self.buffer_bytes


def collective(
    module: Module,
    kind: CollectiveKind,
    buffer_bytes: Number,
    count: Any = 1.0,
    *,
    part: Part | None = None,
    **further: Any,
) -> list[Operator]:
    """Return a collective, called by its kind if it is no ``part`` of its own; nothing where no plan has it.

    ``count`` is how often it runs, or whether it does; ``further`` fields are those of `Collective`.
    """
    if not anywhere(count):
        return []
    return [
        Collective(
            module=module,
            part=part or cast(Part, kind.replace("_", "-")),
            kind=kind,
            buffer_bytes=buffer_bytes,
            count=count * 1.0,
            **further,
        )
    ]
