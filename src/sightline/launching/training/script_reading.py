"""The training script of a launch read back: its settings and its model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sightline import catalog
from sightline.launching.hugging_face import configuration_file
from sightline.launching.options import Options, without_none
from sightline.launching.repositories import model_of
from sightline.launching.source import Source, named_settings, source_of
from sightline.launching.training.script_settings import DTYPES, KERNELS, MODEL, QUANTIZED, WHOLE_MODULES
from sightline.launching.value_checks import refuse_values
from sightline.loading.models import resolve_model
from sightline.loading.sources import read_text
from sightline.scenario.techniques import ALL_LINEAR, MODULE_NAMES

_NAMES_OF_MODELS: Final = ("model-name-or-path", "weights", "model-name", "model")
"""Options by which scripts are told their model."""
DTYPES_OF_TORCH: Final = tuple(dict.fromkeys(DTYPES.values()))
_NULL_IS_A_VALUE: Final = ("sliding_window", "attn_logit_softcapping", "final_logit_softcapping")
"""Keys of a model's configuration whose null switches off what its class has by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the files of a training script say; nothing where there is none."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its ``training.json``."""
    model: str | Mapping[str, Any] | None = None
    workload: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)


def script_of(found: Source, options: Options) -> Script:
    """Return what the files next to a command that names its settings say; of other scripts the model at most."""
    if not options.has("settings"):
        named = (model_of(options.text(name)) for name in _NAMES_OF_MODELS if options.has(name))
        return Script(model=next(filter(None, named), None))
    settings = named_settings(found, options.text("settings"), "the settings")
    refuse_values(
        settings,
        numbers=dict.fromkeys(("micro_batch", "sequence_length", "global_batch"), 1),
        choices=dict.fromkeys(("weights_dtype", "compute_dtype", "gradient_reduce_dtype"), DTYPES_OF_TORCH),
        sections=("quantization", "adapter"),
    )
    return Script(settings=settings, model=_model(found, settings), **_parts(settings))


def _model(found: Source, settings: Mapping[str, Any]) -> str | Mapping[str, Any] | None:
    """The model of ``model/config.json``: the catalog's where nobody changed that, else its keys."""
    path = found.folder / MODEL
    if not path.is_file():
        return None
    name, text = settings.get("model"), read_text(path)
    if (
        isinstance(name, str)
        and name in catalog.names("models")
        and configuration_file(resolve_model(name, Path()).model) == text
    ):
        return name
    stated = source_of(path).mapping
    return {key: value for key, value in stated.items() if value is not None or key in _NULL_IS_A_VALUE}


def _parts(stated: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Workload and plan of a ``training.json``."""
    quantized = stated.get("quantization")
    known = ("load_in_4bit", "load_in_8bit", "bnb_4bit_use_double_quant")
    same = (n for n, form in QUANTIZED.items() if all((quantized or {}).get(key) == form.get(key) for key in known))
    form = next(same, None) if quantized else "none"
    kernel = {value: key for key, value in KERNELS.items()}.get(str(stated.get("attention")))
    plan = {
        "micro_batch": stated.get("micro_batch"),
        "attention": "eager" if stated.get("attention") == "eager" else "flash",
        "attention_kernel": kernel,
        "optimizer": stated.get("optimizer"),
        "quantization": form,
        "adapter": _adapter(stated.get("adapter"), form),
        "compile": stated.get("compile"),
        "state_dtype": "bf16" if _trains_in_bf16(stated) else None,
    }
    workload = {key: stated.get(key) for key in ("task", "sequence_length", "global_batch", "total_tokens")}
    return {"workload": without_none(workload), "plan": without_none(plan)}


def _trains_in_bf16(stated: Mapping[str, Any]) -> bool:
    """Whether the trained weights themselves are stored in 16 bits, which DeepSpeed does not leave to the script."""
    if stated.get("adapter") or stated.get("quantization") or stated.get("trainer") == "deepspeed":
        return False
    return (stated.get("weights_dtype"), stated.get("compute_dtype")) == ("bfloat16", "bfloat16")


def _adapter(stated: Mapping[str, Any] | None, form: str | None) -> Any:
    """Return ``plan.adapter`` of peft's keys next to weights of a form."""
    if not stated:
        return "none"
    also = [part for part, names in WHOLE_MODULES.items() if set(names) & set(stated.get("modules_to_save") or ())]
    targets = stated.get("target_modules") or ALL_LINEAR
    words = (
        targets if targets == ALL_LINEAR else list(dict.fromkeys(MODULE_NAMES[t] for t in targets if t in MODULE_NAMES))
    )
    return without_none(
        {
            "kind": "qlora" if form and form.startswith("nf4") else "lora",
            "rank": stated.get("r"),
            "alpha": stated.get("lora_alpha"),
            "dropout": stated.get("lora_dropout"),
            "targets": words,
            "also_trained": also or None,
        }
    )
