"""Names of operators and kernels matched to the operators of our programs."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple


class Work(NamedTuple):
    """What a kernel does."""

    module: str
    operator: str
    bound: str
    """compute, memory or network; unmatched where nobody knows the name."""


UNMATCHED = "unmatched"
UNKNOWN = Work(UNMATCHED, UNMATCHED, UNMATCHED)

_FLASH = Work("attention core", "flash attention", "compute")
_MATMUL = Work("linear layers", "matmul", "compute")
_BATCHED = Work("batched products", "batched matmul", "compute")
_CONVOLUTION = Work("convolution", "convolution", "compute")
_CROSS_ENTROPY = Work("head", "cross-entropy", "memory")
_SOFTMAX = Work("softmax", "softmax", "memory")
_NORM = Work("norm", "norm", "memory")
_EMBEDDING = Work("embedding", "lookup", "memory")
_UPDATE = Work("optimizer", "update", "memory")
_ROPE = Work("rope", "rope", "memory")
_DROPOUT = Work("elementwise", "dropout", "memory")
_ACTIVATION = Work("mlp", "activation", "memory")
_COPY = Work("copies", "copy", "memory")
_REDUCTION = Work("reductions", "reduction", "memory")
_INDEXING = Work("indexing", "gather and scatter", "memory")
_FILL = Work("fills", "fill", "memory")
_VIEW = Work("views", "view", "memory")
_ELEMENTWISE = Work("elementwise", "elementwise", "memory")
_FUSED = Work("fused kernels", "fused elementwise", "memory")
_DISPATCH = Work("dispatch", "autograd", "memory")

Table = Sequence[tuple[re.Pattern[str], Work]]


def _anywhere(parts: str) -> re.Pattern[str]:
    """Any of some expressions, anywhere in a name."""
    return re.compile("|".join(parts.split()))


def _aten(parts: str) -> re.Pattern[str]:
    """PyTorch's own operators of exactly these names."""
    return re.compile(rf"^aten::_?({'|'.join(parts.split())})_?(\.\w+)?$")


_OPERATORS: Table = (
    (
        _anywhere(
            "flash_attention flash_attn _efficient_attention scaled_dot_product cudnn_attention FlashAttn fused_attn"
        ),
        _FLASH,
    ),
    (_anywhere("^aten::_?(bmm|baddbmm)$ ^(Baddbmm|Bmm)Backward"), _BATCHED),
    (
        _aten(
            "mm addmm linear matmul scaled_mm int_mm grouped_mm addmm_activation addmv mv dot einsum linear_backward "
            r"weight_int4pack_mm mkldnn_linear\w*"
        ),
        _MATMUL,
    ),
    (_anywhere("^mkldnn::_linear ^_Linear ^te_gemm ^_GroupedLinear ^_LayerNormLinear"), _MATMUL),
    (_anywhere("convolution conv[123]d cudnn_conv miopen_conv"), _CONVOLUTION),
    (_anywhere("nll_loss cross_entropy log_softmax LogSoftmax"), _CROSS_ENTROPY),
    (_anywhere("softmax"), _SOFTMAX),
    (_anywhere("layer_norm rms_norm group_norm batch_norm LayerNorm RMSNorm"), _NORM),
    (_anywhere("embedding index_select"), _EMBEDDING),
    (_anywhere("_fused_(adam|sgd|adagrad) _foreach_ multi_tensor FusedAdam"), _UPDATE),
    (_anywhere("dropout bernoulli"), _DROPOUT),
    (
        _anywhere(r"aten::_?(gelu|silu|relu|sigmoid|tanh|leaky_relu|elu|hardswish|mish|softplus|glu|threshold)\w*$"),
        _ACTIVATION,
    ),
    (
        _aten(
            "copy to_copy to clone contiguous cat chunk_cat tensor_split stack copy_from repeat expand transpose "
            r"permute pin_memory local_scalar_dense item slice_backward select_backward split\w* chunk tril triu roll "
            "flip pad "
            "constant_pad_nd"
        ),
        _COPY,
    ),
    (
        _aten(
            "sum mean max min amax amin norm linalg_vector_norm prod all any argmax argmin std var cumsum logsumexp "
            r"count_nonzero sort topk nonzero unique\w* masked_select bincount histc searchsorted bucketize "
            r"mse_loss\w* std_mean var_mean equal adaptive_\w+ max_pool\w* avg_pool\w*"
        ),
        _REDUCTION,
    ),
    (_aten(r"gather scatter\w* index\w* take masked_\w+ repeat_interleave where unsafe_index\w*"), _INDEXING),
    (
        _aten(r"zeros? zeros_like ones? ones_like full\w* fill arange rand\w* normal uniform eye empty\w* new_\w+"),
        _FILL,
    ),
    (
        _aten(
            "as_strided view reshape reshape_alias resolve_conj detach t unsqueeze squeeze narrow slice select unfold "
            "result_type resize unsafe_view flatten unflatten alias lift_fresh numpy_T is_nonzero resolve_neg unbind "
            "set has_compatible_shallow_copy_type"
        ),
        _VIEW,
    ),
    (_anywhere("^detach_?$"), _VIEW),
    (_anywhere("^fsdp::"), _COPY),
    (
        _aten(
            "mul add sub rsub div pow sqrt rsqrt neg exp log abs square reciprocal addcmul addcdiv lerp maximum "
            r"minimum clamp\w* cos sin erf eq ne le lt ge gt bitwise_\w+ logical_\w+ isfinite isnan isinf sign "
            r"floor\w* remainder fmod ceil round native_dropout\w* amp_\w+ log1p log2 diff isin "
            r"nan_to_num trunc sgn __\w+__"
        ),
        _ELEMENTWISE,
    ),
    (
        _anywhere(
            r"^autograd:: Backward\d*$ AccumulateGrad ^torch::autograd ^torch\.distributed\.ddp reducer ^Optimizer "
            "CompiledFunction Torch-Compiled"
        ),
        _DISPATCH,
    ),
)
"""Names of PyTorch's operators; the first that matches counts."""

_KERNELS: Table = (
    # Names that our own timelines give kernels.
    (_anywhere(r"^norm(\sgradient)?$"), _NORM),
    (_anywhere(r"^activation(\sgradient)?$"), _ACTIVATION),
    (_anywhere(r"^residual(\sgradient)?$ ^gradient\saccumulation$"), _ELEMENTWISE),
    (_anywhere(r"^lookup$ ^table\sgradient$"), _EMBEDDING),
    (_anywhere("^optimizer$"), _UPDATE),
    (
        _anywhere("flash_(fwd|bwd) flash_attn fmha attention flash:: attn_(fwd|bwd) pytorch_flash _bwd_kernel_d"),
        _FLASH,
    ),
    (
        _anywhere("conv[123]d convolution wgrad dgrad cudnn::cnn winograd implicit_gemm nchwToNhwc nhwcToNchw igemm_"),
        _CONVOLUTION,
    ),
    (_anywhere("conv"), _CONVOLUTION),
    (
        _anywhere(
            "(?<!fb)gemm cutlass ampere_ sm80_ sm90_ sm100_ nvjet cublas Cijk_ splitK xmma wgmma volta_ turing_ "
            "hopper_ gemv triton_tem ^fc- matmul batch_mat"
        ),
        _MATMUL,
    ),
    (_anywhere("cross[_-]entropy nll_loss log_?softmax"), _CROSS_ENTROPY),
    (_anywhere("[sS]oft[mM]ax"), _SOFTMAX),
    (_anywhere("layer_?norm rms_?norm LayerNorm GammaBeta batch_norm bn_(fw|bw) RowwiseMoments"), _NORM),
    (_anywhere("embedding indexSelect Embedding pooled_embs"), _EMBEDDING),
    (_anywhere("multi_tensor_apply [aA]dam [lL]amb(?!da) sgd"), _UPDATE),
    (_anywhere("rotary rope"), _ROPE),
    (_anywhere("dropout bernoulli"), _DROPOUT),
    (_anywhere("gelu silu relu swiglu sigmoid"), _ACTIVATION),
    (_anywhere("triton_(poi|red|per)"), _FUSED),
    (_anywhere("CatArray [cC]opy Memcpy transpose tensorTransform dma_request pad_kernel"), _COPY),
    (_anywhere("Memset Fill fill distribution_"), _FILL),
    (_anywhere("[rR]educe norm [sS]um [sS]can [sS]ort [tT]op[kK] DeviceRadix cub:: pool"), _REDUCTION),
    (_anywhere("gather scatter [iI]ndex masked where permute bucketize"), _INDEXING),
    (
        _anywhere(r"elementwise pointwise CUDAFunctor BinaryFunctor aten::\w+(\.out)?- ^(add|mul|sub|div)\w*-"),
        _ELEMENTWISE,
    ),
    (_anywhere("^triton_"), _FUSED),
)
"""Names of kernels, for those whose operator says nothing."""

_VAGUE = frozenset(("views", "dispatch", "copies", "reductions"))
"""Modules whose operators launch kernels of other kinds too, so that the kernel's own name says more."""

UNNAMED = "other collective"
_COLLECTIVES: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile("all_?reduce"), "all-reduce"),
    (re.compile("all_?gather"), "all-gather"),
    (re.compile("reduce_?scatter"), "reduce-scatter"),
    (re.compile("all_?to_?all|all2all"), "all-to-all"),
    (re.compile("send|recv"), "send-recv"),
    (re.compile("broadcast"), "broadcast"),
    (re.compile("barrier"), "barrier"),
    (re.compile("reduce"), "reduce"),
    (re.compile("^waiting for "), "waiting for others"),
)
_COMMUNICATION = _anywhere(
    "^(nccl|rccl|msccl|oneccl|hccl) ncclDevKernel ncclKernel rcclGeneric cross_device_reduce allreduce_fusion "
    "(one|two)_shot_all_reduce multimem_all_reduce"
    # As the timeline of a prediction names what ranks wait for in their exchanges.
    r" ^waiting\sfor\s(the\sslowest\sdevice|longer\ssamples)$"
)
_HOST_COMMUNICATION = _anywhere("^(gloo|mpi|ucc|nccl|hccl|xccl|oneccl|c10d|_c10d_functional)::? ^record_param_comms$")


@lru_cache(maxsize=65536)
def work_of(operator: str, kernel: str) -> Work:
    """Return what a kernel does that an operator of this name launched; an empty name is unknown."""
    if kernel and is_communication(kernel):
        return _communication(operator, kernel)
    of_operator = _first(_OPERATORS, operator) if operator else None
    of_kernel = _first(_KERNELS, kernel) if kernel and (of_operator is None or of_operator.module in _VAGUE) else None
    return of_kernel or of_operator or UNKNOWN


def _communication(operator: str, kernel: str) -> Work:
    """NCCL runs exchanges among all by kernels of sends and receives, so that only what launched them says which."""
    by_kernel, by_operator = communication_of(kernel), communication_of(operator)
    vague = by_kernel.operator == UNNAMED or (
        by_kernel.operator == "send-recv" and by_operator.operator in ("all-to-all", "broadcast", "all-gather")
    )
    return by_operator if vague else by_kernel


def communication_of(name: str) -> Work:
    """Return the collective that a kernel or annotation is."""
    return Work("collectives", collective_of(name), "network")


def is_communication(kernel: str) -> bool:
    """Return whether a device's kernel is a collective or a transfer between devices."""
    return _COMMUNICATION.search(kernel) is not None


def is_host_communication(name: str) -> bool:
    """Return whether an operator or annotation of the host is a collective."""
    return _HOST_COMMUNICATION.search(name) is not None


@lru_cache(maxsize=4096)
def collective_of(name: str) -> str:
    """Return our name of a collective."""
    lower = name.lower()
    return next((collective for form, collective in _COLLECTIVES if form.search(lower)), UNNAMED)


def _first(table: Table, name: str) -> Work | None:
    return next((work for form, work in table if form.search(name)), None)
