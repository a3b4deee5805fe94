"""Low-rank adapters by peft: everything else is frozen."""

from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.measurement.outcome import UnsupportedCaseError
from sightline.scenario.adapter import ALL_LINEAR, MODULE_NAMES, Adapter

if TYPE_CHECKING:
    import torch

WHOLE_MODULES = {"embedding": ("embed_tokens", "wte", "embed_in", "word_embeddings"), "head": ("lm_head", "embed_out")}
"""What transformers' classes call the model's ends."""


def with_adapter(model: Any, adapter: Adapter, *, gated: bool) -> "torch.nn.Module":
    """Return ``model`` with ``adapter`` beside the projections it names; the seed of its weights is the caller's.

    Raises:
        InputError: peft is missing.
        UnsupportedCaseError: The model has no such projections.
    """
    try:
        import peft
    except ImportError:
        raise InputError("adapters need peft, which is not installed: pip install 'sightline[measure]'") from None
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
