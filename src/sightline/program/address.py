"""Where an operator stands in a program: its module, its part of the module, and what it makes.

Phase and block follow from where an operator runs. Rules and prices look at these typed addresses; names are for
tables.
"""

from typing import Final, Literal

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
_OtherProduct = Literal["decay up", "gate up", "input", "output", "router", "logits", "joining", "coefficients"]
_Adapter = Literal["adapter A", "adapter B", "adapter chain"]
_Products = _Product | _LatentProduct | _RecurrentProduct | _OtherProduct | _Adapter

_Core = Literal["attention", "flash attention", "selected attention", "scores", "context", "values", "probabilities"]
_Blocks = Literal["flash attention to earlier keys", "flash attention of later queries", "chunks joined"]
_EagerCore = Literal["queries", "keys", "softmax", "capped scores", "alibi", "dropout", "layout", "gate"]
_Heads = Literal["heads repeated", "heads joined", "join keys", "cache write", "top-k", "target", "loss", "folding"]
_Recurrent = Literal["conv", "gated delta", "scan", "gated norm", "norm of queries and keys", "decay and strength"]
_Mixing = _Core | _Blocks | _EagerCore | _Heads | _Recurrent

_Norm = Literal["norm", "head norm", "unfused norm", "squares", "rope", "activation", "residual", "bias"]
_Streams = Literal["streams' norm", "mixing", "streams read", "streams written", "streams joined"]
_Experts = Literal["choice", "permutation", "weighted sum", "sum"]
_Outer = Literal["lookup", "embedding", "table", "capped logits", "cross-entropy", "sampling", "joined", "split"]
_Sum = Literal["accumulation", "input gradients summed", "pieces summed"]
_Streaming = _Norm | _Streams | _Experts | _Outer | _Sum

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

_LayerKernel = Literal["norm", "rope", "activation", "residual", "softmax", "copy", "cache write"]
KernelClass = _LayerKernel | Literal["embedding", "sampling"]
"""Classes of element-wise kernels that devices are calibrated for."""

ADAPTER_PRODUCTS: Final[tuple[Part, ...]] = ("adapter A", "adapter B")
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
