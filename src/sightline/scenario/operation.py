"""A single operator as the question: a matmul, attention, a collective or a bandwidth-bound kernel, without a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from sightline.quantities import BYTES, Number
from sightline.scenario.cluster import CollectiveKind, Question
from sightline.scenario.precision import WEIGHT_FORMATS
from sightline.validators import Key, quantity, text, whole

ElementwiseName = Literal[
    "copy",
    "norm",
    "activation",
    "gated_activation",
    "embedding",
    "rope",
    "softmax",
    "cross_entropy",
    "adam",
    "dropout",
    "residual",
]
ELEMENTWISE: tuple[ElementwiseName, ...] = get_args(ElementwiseName)
CopyDirection = Literal["device-to-device", "host-to-device", "device-to-host"]
COPY_DIRECTIONS: tuple[CopyDirection, ...] = get_args(CopyDirection)
"""Between which memories a copy goes; device-to-device stays in one device's."""
HostMemory = Literal["pinned", "pageable"]
GroupedLayout = Literal["masked", "contiguous"]

FORMATS: tuple[str, ...] = ("16-bit", *dict.fromkeys(WEIGHT_FORMATS.values()))
"""Number formats of a matmul's operands by the names of their kernels."""
PLAIN_DTYPES = ("fp32", "tf32", "fp16", "bf16")
"""Types of operators that are no products."""
MODEL_DTYPES = ("fp16", "bf16")
"""Types of inputs and outputs around products in any format."""
DTYPE_FORMATS: Mapping[str, str] = {
    "fp32": "32-bit",
    "tf32": "32-bit",
    **dict.fromkeys(MODEL_DTYPES, "16-bit"),
    "fp8": "fp8",
    "int8": "w8a8",
    "nvfp4": "nvfp4",
}
"""The format that a compute dtype alone stands for."""
CACHE_DTYPES = ("fp8", "int8")
"""Types of cached keys and values other than the operator's own."""


_SIZE = Key(whole(), needs="a whole number of 1 or more")
_WIDTH = Key(whole(1, 10**6), needs=_SIZE.needs)
_ELEMENTS = whole(1, 10**15)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Operator:
    """What single operators have in common."""

    task: ClassVar[str] = "operator"


class _Product(_Operator):
    """What products of matrices have in common: each states its sizes, then these fields, as results list them."""

    __slots__ = ()
    dtype: str
    format: str | None
    """Of the operands; None: what the dtype stands for."""

    @property
    def kernel(self) -> str:
        """The number format of the operands."""
        return self.format or DTYPE_FORMATS[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatmulOperation(_Product):
    """``batch`` products of an m x k with a k x n matrix."""

    operator: ClassVar[str] = "matmul"
    m: Annotated[Number, _SIZE]
    n: Annotated[Number, _SIZE]
    k: Annotated[Number, _SIZE]
    batch: Annotated[Number, whole()] = 1
    weight_copies: Annotated[Number | None, whole()] = None
    """Weight matrices that a benchmark multiplies by in turn, which L2 keeps if they fit; None: they come from memory,
    as in a model."""
    dtype: Annotated[str, text] = "bf16"
    format: Annotated[str | None, text] = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedMatmulOperation(_Product):
    """The ``rows`` of a mixture's experts, each times its own expert's k x n matrix, in one kernel."""

    operator: ClassVar[str] = "grouped_matmul"
    rows: Annotated[Number, whole()]
    """Assignments of tokens to experts, spread at random."""
    experts: Annotated[Number, _SIZE]
    n: Annotated[Number, _SIZE]
    k: Annotated[Number, _SIZE]
    per_token: Annotated[Number, whole()] = 1
    """Experts that a token chooses: more reach more experts with as many rows."""
    layout: GroupedLayout | None = None
    """masked: slots of fixed size, as in decoding; None: whichever is faster."""
    dtype: Annotated[str, text] = "bf16"
    format: Annotated[str | None, text] = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionOperation(_Operator):
    """The forward pass of a fused attention kernel."""

    operator: ClassVar[str] = "attention"
    batch: Annotated[Number, whole()] = 1
    heads: Annotated[Number, _SIZE]
    kv_heads: Annotated[Number, whole()]
    head_dim: Annotated[Number, _WIDTH]
    query_tokens: Annotated[Number, _SIZE]
    context_tokens: Annotated[Number, whole()]
    """Keys and values that are there, those of the queries' own tokens included."""
    causal: bool = True
    dtype: Annotated[str, text] = "bf16"
    kv_dtype: Annotated[str | None, text] = None
    """Of cached keys and values; None: the dtype."""
    window: Annotated[Number | None, whole()] = None
    """Tokens that a query of a sliding window sees, itself among them."""
    value_dim: Annotated[Number | None, _WIDTH.kind] = None
    """Width of a head's value and output; None: ``head_dim``."""
    latent: bool = False
    """One latent of ``head_dim`` serves all heads as key and value, as absorbed multi-head latent attention reads
    it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CollectiveOperation(_Operator):
    """A collective over the whole cluster."""

    operator: CollectiveKind
    bytes: Annotated[Number, Key(quantity(BYTES), needs="bytes, such as '64 MiB'")]
    """The buffer as nccl-tests reports it."""
    library: Annotated[str, text] = "nccl"
    """nccl, or for an all-reduce an engine's kernels where they are faster: custom (the usual engine's) or the
    engine."""
    version: Annotated[str | None, text] = None
    """Release of NCCL or of the engine; None: the newest measured."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ElementwiseOperation(_Operator):
    """A bandwidth-bound kernel over ``elements``."""

    operator: ElementwiseName
    elements: Annotated[Number, _ELEMENTS]
    dtype: Annotated[str, text] = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostCopyOperation(_Operator):
    """A copy of ``elements`` between the host's memory and a device's."""

    operator: ClassVar[str] = "copy"
    elements: Annotated[Number, _ELEMENTS]
    dtype: Annotated[str, text] = "bf16"
    direction: CopyDirection
    host_memory: HostMemory = "pinned"
    """pageable: the driver stages it in pinned memory by one thread."""


Operation: TypeAlias = (
    MatmulOperation
    | GroupedMatmulOperation
    | AttentionOperation
    | CollectiveOperation
    | ElementwiseOperation
    | HostCopyOperation
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatorScenario(Question):
    """How long one operator takes on a device of the cluster, or a collective on all of them."""

    workload: Operation
