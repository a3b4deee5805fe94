"""Build a scenario's model as the Hugging Face class that people train: weights, quantization and adapters."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.launching.hugging_face import KNOWN, configuration
from sightline.loading.models import resolve_model
from sightline.measurement.machine import TORCH_DTYPES, require
from sightline.measurement.processes.isolation import UnsupportedCaseError
from sightline.scenario import Model, Plan, Scenario
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
        raise UnsupportedCaseError(f"plan.quantization is '{form}'; allowed with bitsandbytes: nf4, nf4-single, int8")
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


def with_adapter(model: Any, adapter: Adapter, *, gated: bool, upcast: bool = False) -> "torch.nn.Module":
    """Return ``model`` with ``adapter`` on the projections it names. The caller seeds the random weights.

    Norms are cast to fp32 on ``upcast``.

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
    for weight in model.parameters() if upcast else ():
        if weight.ndim == 1 and weight.is_floating_point():
            weight.data = weight.data.float()
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


FULL = ("fp32", "tf32")
MOMENTS_BYTES = 8.0
"""Of Adam's two moments in fp32, per parameter; an optimizer with more also keeps masters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Types by our names."""

    compute: str
    """Of matmuls."""
    weights: str
    """Of the weights that forward and backward read (of frozen ones where there is an adapter)."""
    masters: bool
    """The optimizer works on fp32 copies of 16-bit weights."""

    @property
    def autocasts(self) -> bool:
        """fp32 weights are cast where a matmul reads them."""
        return self.compute not in FULL and self.weights in FULL


def precision_of(plan: Plan) -> Precision:
    """Return how the plan's framework mixes types in the plan's dtype.

    Full precision keeps no copies. With an adapter, weights are frozen and stored in the compute dtype.
    """
    if plan.dtype in FULL:
        return Precision(compute=plan.dtype, weights=plan.dtype, masters=False)
    states = plan.framework.states_in(plan.dtype)
    if plan.adapter is not None or plan.quantization != "none":
        return Precision(compute=plan.dtype, weights=plan.dtype, masters=plan.adapter is None)
    low_precision = states.weights < 4
    return Precision(
        compute=plan.dtype,
        weights=plan.dtype if low_precision else "fp32",
        masters=low_precision and states.optimizer > MOMENTS_BYTES,
    )


def preload(*libraries: str) -> None:
    """Import what models are made of, and ``libraries``, without running any of it.

    Processes that are forked from here have it at once, and its code is not accounted to a model. A library that is
    missing is complained about where it is used.
    """
    import torch
    import transformers

    _ = torch.nn.Linear, transformers.AutoModelForCausalLM
    for library in libraries:
        with suppress(ImportError):
            import_module(library)


SEED = 2311
ATTENTION = {"flash": "sdpa", "eager": "eager"}
"""What transformers calls them; which kernel ``sdpa`` takes is said where the model runs."""
SAME_FIGURES = ("hidden_size", "layers", "heads", "kv_heads", "head_dim", "intermediate_size", "vocab_size")


def build_model(scenario: Scenario, device: str = "cpu", weights: Path | None = None) -> "torch.nn.Module":
    """Return what the scenario trains, in training mode: adapter, frozen and quantized weights as the plan says.

    Args:
        scenario: Its plan's dtype, attention, quantization, adapter and recomputation are the model's.
        device: Where its weights lie, as PyTorch writes it.
        weights: Folder of a checkpoint; None draws random weights from a fixed seed, the same on every rank.

    Raises:
        UnsupportedCaseError: There is no class with such layers, or it cannot do what the plan asks.
        InputError: The checkpoint is not one of this model.
    """
    import torch

    plan = scenario.plan
    model = build_plain_model(
        scenario.model, dtype=precision_of(plan).weights, attention=plan.attention, device=device, weights=weights
    )
    if plan.quantization != "none":
        model = quantize(model, plan.quantization, precision_of(plan).compute, device)
    if plan.adapter is not None:
        torch.manual_seed(SEED)
        model = with_adapter(model, plan.adapter, gated=scenario.model.gated, upcast=plan.upcasts)
    if plan.recompute == "full":
        _recompute_layers(model)
    elif plan.recompute != "none":
        raise UnsupportedCaseError(f"plan.recompute is '{plan.recompute}'; allowed with transformers models: full")
    return model.train()


def build_plain_model(
    model: Model, *, dtype: str, attention: str = "flash", device: str = "cpu", weights: Path | None = None
) -> "torch.nn.Module":
    """Return the model alone, every weight trainable, in ``dtype`` (fp32, bf16 or fp16) on ``device``.

    Raises `UnsupportedCaseError` and `InputError` as `build_model` does.
    """
    import torch
    import transformers

    classes: Any = transformers.AutoModelForCausalLM
    config = transformers_config(model)
    if model.score_cap and attention == "flash":
        raise UnsupportedCaseError(
            f"plan.attention is 'flash', but PyTorch has no fused kernel for the capped scores of {model.name}; "
            "allowed: eager"
        )
    config._attn_implementation = ATTENTION[attention]  # noqa: SLF001 - where from_config reads it
    if weights is not None:
        return _from_checkpoint(model, weights, config, TORCH_DTYPES[dtype], device)
    torch.manual_seed(SEED)
    try:
        with torch.device(device):
            built: torch.nn.Module = classes.from_config(config, dtype=getattr(torch, TORCH_DTYPES[dtype]))
    except ValueError as error:
        # transformers has no fused attention for some families.
        raise UnsupportedCaseError(str(error).partition(". ")[0]) from error
    counted = sum(p.numel() for p in built.parameters())
    if counted != model.parameters:
        raise UnsupportedCaseError(
            f"{model.name} has {model.parameters:,} parameters; the nearest class of transformers, "
            f"{type(built).__name__}, would have {counted:,}"
        )
    return built


def _from_checkpoint(model: Model, folder: Path, config: Any, dtype: str, device: str) -> "torch.nn.Module":
    import torch
    import transformers
    from safetensors import SafetensorError

    classes: Any = transformers.AutoModelForCausalLM
    check_checkpoint(model, folder)
    try:
        stated = transformers.AutoConfig.from_pretrained(folder)
        stated.use_cache = False
        built, loaded = classes.from_pretrained(
            folder,
            config=stated,
            dtype=getattr(torch, dtype),
            attn_implementation=config._attn_implementation,  # noqa: SLF001 - as above
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"--weights '{folder}' cannot be loaded: {str(error).strip().splitlines()[0]}") from error
    _check_loaded(folder, loaded)
    placed: torch.nn.Module = built.to(device)
    return placed


def check_checkpoint(model: Model, folder: Path) -> None:
    """Refuse a checkpoint whose ``config.json`` is of another model than the scenario's; raises `InputError`."""
    if not (folder / "config.json").is_file():
        raise InputError(f"--weights '{folder}' is not a checkpoint: it has no config.json")
    stated = resolve_model(str(folder), Path()).model
    for figure in SAME_FIGURES:
        asked, has = getattr(model, figure), getattr(stated, figure)
        if asked != has:
            raise InputError(f"--weights '{folder}' has {figure} {has}; the model of the scenario has {asked}")


def _check_loaded(folder: Path, loaded: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose tensors are not those its own config promises."""
    if loaded["mismatched_keys"]:
        name, has, needs = min(loaded["mismatched_keys"])
        raise InputError(
            f"--weights '{folder}' does not match its config.json: {name} is {list(has)}, expected {list(needs)}"
        )
    if loaded["missing_keys"]:
        raise InputError(f"--weights '{folder}' does not match its config.json: it lacks {min(loaded['missing_keys'])}")


def _recompute_layers(model: Any) -> None:
    """Keep only the inputs of layers for the backward pass; what is inside runs again there."""
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def transformers_config(model: Model) -> Any:
    """Return the configuration whose model has this one's layers; dropout is off.

    Raises:
        UnsupportedCaseError: No class known here has such layers.
    """
    import transformers

    found = configuration(model)
    if found is None:
        raise UnsupportedCaseError(f"{model.name} has layers that cannot be measured; allowed: {KNOWN}")
    family, keys = found
    use_cache = keys.pop("use_cache")
    config = getattr(transformers, family)(**keys)
    config.use_cache = use_cache
    return config
