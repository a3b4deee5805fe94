"""Quantized weights by bitsandbytes and low-rank adapters by peft."""

from typing import TYPE_CHECKING, Any

from sightline.measurement.machine.record import require
from sightline.measurement.processes.case import UnsupportedCaseError
from sightline.scenario.techniques import ALL_LINEAR, MODULE_NAMES, Adapter

if TYPE_CHECKING:
    import torch

HEADS = ("lm_head", "embed_out")
"""What transformers' classes call the head, which stays as it is."""
REPACKED_OUTPUTS, REPACKED_INPUTS = 32, 64
"""Multiples that bitsandbytes needs to repack 4-bit weights for inference on processors with AVX512-BF16."""


def quantize(model: "torch.nn.Module", form: str, compute: str, device: str) -> "torch.nn.Module":
    """Return the model with the linear layers of its decoder in ``form`` (nf4, nf4-single or int8).

    Raises:
        InputError: bitsandbytes is missing.
        UnsupportedCaseError: It has no such format, it cannot pack a layer of these sizes, or the model keeps its
            projections in something else than linear layers.
    """
    import torch

    require("bitsandbytes", what="plan.quantization")
    import bitsandbytes

    if form not in ("nf4", "nf4-single", "int8"):
        raise UnsupportedCaseError(f"plan.quantization is '{form}'; bitsandbytes has nf4, nf4-single and int8")
    linear = [(n, m) for n, m in model.named_modules() if type(m) is torch.nn.Linear and n not in HEADS]
    if not linear:
        raise UnsupportedCaseError(f"{type(model).__name__} has no linear layers that bitsandbytes could replace")
    for name, layer in linear:
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, _quantized(bitsandbytes.nn, layer, form, compute, device))
    return model


def _quantized(bnb: Any, layer: "torch.nn.Linear", form: str, compute: str, device: str) -> "torch.nn.Module":
    """A quantized copy of one linear layer; bitsandbytes quantizes when weights are moved to their device."""
    import torch

    has_bias = layer.bias is not None
    if form == "int8":
        # Outliers beyond 6 stay in 16 bits, as LLM.int8() has it (arXiv 2208.07339).
        new = bnb.Linear8bitLt(layer.in_features, layer.out_features, has_bias, has_fp16_weights=False, threshold=6.0)
        new.weight = bnb.Int8Params(layer.weight.data.cpu(), requires_grad=False, has_fp16_weights=False)
    else:
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(compute, torch.float32)
        _refuse_unpackable(layer, form, dtype)
        new = bnb.Linear4bit(layer.in_features, layer.out_features, has_bias, compute_dtype=dtype, quant_type="nf4")
        if layer.out_features % REPACKED_OUTPUTS or layer.in_features % REPACKED_INPUTS:
            # bitsandbytes would repack these weights all the same, and fail. Without, it expands them for each product.
            new.support_avx512bf16_for_cpu = False
        new.weight = bnb.Params4bit(
            layer.weight.data.cpu(),
            requires_grad=False,
            quant_type="nf4",
            compress_statistics=form == "nf4",
            # Stored as the compute dtype, the packed weights can be sharded and gathered like any others.
            quant_storage=dtype,
        )
    if has_bias:
        new.bias = layer.bias
    placed: torch.nn.Module = new.to(device)
    return placed


def _refuse_unpackable(layer: "torch.nn.Linear", form: str, storage: "torch.dtype") -> None:
    """Raise `UnsupportedCaseError` where 4-bit weights, two in a byte, do not fill whole elements of ``storage``."""
    if -(-layer.weight.numel() // 2) % storage.itemsize:
        raise UnsupportedCaseError(
            f"plan.quantization is '{form}'; bitsandbytes cannot pack a weight of {layer.out_features} x "
            f"{layer.in_features} into whole elements of {str(storage).removeprefix('torch.')}"
        )


WHOLE_MODULES = {"embedding": ("embed_tokens", "wte", "embed_in", "word_embeddings"), "head": ("lm_head", "embed_out")}
"""What transformers' classes call the embedding and the head."""


def with_adapter(model: Any, adapter: Adapter, *, gated: bool) -> "torch.nn.Module":
    """Return ``model`` with ``adapter`` on the projections it names. The caller seeds the random weights.

    Raises:
        InputError: peft is missing.
        UnsupportedCaseError: The model has no such projections.
    """
    require("peft", what="plan.adapter")
    import peft

    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    wanted = adapter.projections(gated=gated)
    targets = [name for name, word in MODULE_NAMES.items() if word in wanted and name in names]
    if not targets and adapter.targets != ALL_LINEAR:
        raise UnsupportedCaseError(
            f"plan.adapter.targets is {', '.join(wanted)}; {type(model).__name__} has none of them"
        )
    trained = [name for part in adapter.also_trained for name in WHOLE_MODULES[part] if name in names]
    # Without this, nothing before the first adapter needs a gradient, and recomputed layers would get none.
    model.enable_input_require_grads()
    settings: dict[str, Any] = {
        "r": int(adapter.rank),
        "lora_alpha": adapter.alpha,
        "lora_dropout": adapter.dropout,
        "target_modules": ALL_LINEAR if adapter.targets == ALL_LINEAR else targets,
        "modules_to_save": trained or None,
        "task_type": "CAUSAL_LM",
    }
    built: torch.nn.Module = peft.get_peft_model(model, peft.LoraConfig(**settings))
    return built
