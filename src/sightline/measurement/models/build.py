"""A scenario's model as the Hugging Face class that people train, with random weights or the user's own."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.launching.hugging_face import KNOWN, configuration
from sightline.loading.models import resolve_model
from sightline.measurement.machine.devices import TORCH_DTYPES
from sightline.measurement.models.weights import quantize, with_adapter
from sightline.measurement.processes.case import UnsupportedCaseError
from sightline.scenario import Model, Plan, Scenario

if TYPE_CHECKING:
    import torch

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
        model = with_adapter(model, plan.adapter, gated=scenario.model.gated)
    if plan.recompute == "full":
        _recompute_layers(model)
    elif plan.recompute != "none":
        raise UnsupportedCaseError(
            f"plan.recompute is '{plan.recompute}'; models of transformers recompute whole layers: full"
        )
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
            f"plan.attention is 'flash'; {model.name} caps its scores, for which PyTorch has no fused kernel; "
            "measured: eager"
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
        raise InputError(f"--weights '{folder}' is no checkpoint: it has no config.json")
    stated = resolve_model(str(folder), Path()).model
    for figure in SAME_FIGURES:
        asked, has = getattr(model, figure), getattr(stated, figure)
        if asked != has:
            raise InputError(f"--weights '{folder}' has {figure} {has}; the scenario's model has {asked}")


def _check_loaded(folder: Path, loaded: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose tensors are not those its own config promises."""
    if loaded["mismatched_keys"]:
        name, has, needs = min(loaded["mismatched_keys"])
        raise InputError(
            f"--weights '{folder}' does not match its config.json: {name} is {list(has)}, needed is {list(needs)}"
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
        raise UnsupportedCaseError(f"{model.name} has layers that are not measured: {KNOWN}")
    family, keys = found
    use_cache = keys.pop("use_cache")
    config = getattr(transformers, family)(**keys)
    config.use_cache = use_cache
    return config
