"""Write what the training script of a launch needs to know as training.json, and read it back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from sightline import catalog
from sightline.launching.hugging_face import configuration_file, model_of
from sightline.launching.options import Options, refuse_values, without_none
from sightline.launching.source import Source, named_settings, source_of
from sightline.launching.training.shared import whole
from sightline.loading.models import resolve_model
from sightline.loading.sources import read_text
from sightline.scenario import Model, Plan, Scenario
from sightline.scenario.techniques import ALL_LINEAR, MODULE_NAMES, Adapter

SETTINGS: Final = "training.json"
SCRIPT: Final = "train.py"
MODEL: Final = "model/config.json"
STEPS: Final = 50
"""Steps of a run whose tokens are not stated."""
WRITTEN: Final = frozenset(
    ("micro_batch", "attention", "attention_kernel", "optimizer", "quantization", "adapter", "compile", "dtype")
)
"""Fields of a plan that the script takes from its settings."""
DTYPES: Final = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "bfloat16"}
KERNELS: Final = {"flash-2": "flash_attention_2", "flash-3": "flash_attention_3", "cudnn": "cudnn"}
"""Attention implementations of transformers by kernel; PyTorch's own calls cuDNN."""
WHOLE_MODULES: Final = {
    "embedding": ("embed_tokens", "wte", "embed_in", "word_embeddings"),
    "head": ("lm_head", "embed_out"),
}
"""What transformers' classes call the embedding and the head."""
QUANTIZED: Final[Mapping[str, Mapping[str, Any]]] = {
    "nf4": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
    "nf4-single": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": False},
    "int8": {"load_in_8bit": True},
}
"""Keys of transformers' BitsAndBytesConfig by format."""


def files_of(scenario: Scenario, trainer: str, ranks: int) -> dict[str, str]:
    """Return the script, its settings and the model's configuration; ``trainer`` is the library that it trains with."""
    return {
        SCRIPT: files("sightline.launching.training.scripts").joinpath(SCRIPT).read_text(encoding="utf-8"),
        SETTINGS: json_text(settings_of(scenario, trainer, ranks)),
        MODEL: configuration_file(scenario.model) or "",
    }


def named_model(model: Model) -> str | None:
    """Return the catalog's name of a model; None of one with figures of its own."""
    # Imported here because only files of scripts need the catalog.
    from sightline import catalog
    from sightline.loading.models import resolve_model

    name = model.name
    return name if name in catalog.names("models") and resolve_model(name, Path()).model == model else None


def json_text(value: Mapping[str, Any]) -> str:
    """Return a mapping as the text of a file."""
    return json.dumps(value, indent=2) + "\n"


def accumulation(scenario: Scenario) -> int:
    """Return the micro-batches of a step on one rank."""
    return whole(scenario.micro_batches)


def settings_of(scenario: Scenario, trainer: str, ranks: int) -> dict[str, Any]:
    """Return the settings of the script on so many ranks."""
    plan, work = scenario.plan, scenario.workload
    tokens = work.total_tokens
    reduced = plan.gradient_reduce_dtype
    return {
        "trainer": trainer,
        "model": named_model(scenario.model),
        "task": work.task,
        "sequence_length": work.sequence_length,
        "micro_batch": whole(plan.sequences),
        "global_batch": work.global_batch,
        "accumulation": work.global_batch // (whole(plan.sequences) * ranks),
        "steps": whole(work.steps or STEPS),
        "total_tokens": None if tokens is None else whole(tokens),
        "lengths": None if work.lengths is None else work.lengths.to_dict(),
        "packing": work.packing,
        "vocabulary": scenario.model.vocab_size,
        "attention": _attention(scenario),
        "weights_dtype": DTYPES[stored_dtype(plan)],
        "compute_dtype": DTYPES[plan.dtype],
        "gradient_reduce_dtype": None if reduced is None else DTYPES[reduced],
        "tf32": plan.dtype == "tf32",
        "optimizer": plan.optimizer,
        "quantization": _quantization(plan),
        "adapter": None if plan.adapter is None else _adapter(plan.adapter, scenario.model),
        "upcast": plan.upcasts,
        "trained_dtype": DTYPES[_trained_dtype(plan)],
        "recompute": plan.recompute == "full" and not _recomputes_by_itself(plan, trainer),
        "offload_activations": "activations" in plan.offload,
        "compile": plan.compile,
    }


def _attention(scenario: Scenario) -> str:
    """PyTorch's own kernel where none is named, but one that knows samples' borders where rows are packed."""
    plan = scenario.plan
    own = KERNELS["flash-2"] if scenario.workload.packing else "sdpa"
    return "eager" if plan.attention == "eager" else KERNELS.get(plan.attention_kernel or "", own)


def _recomputes_by_itself(plan: Plan, trainer: str) -> bool:
    """Whether the framework's own configuration asks for recomputation: the Trainer's does, and that of FSDP."""
    return trainer == "transformers" or (trainer == "accelerate" and bool(plan.zero_stage > 0))


def _trained_dtype(plan: Plan) -> str:
    """The dtype of trained weights: that of the states, which DeepSpeed keeps apart from the weights."""
    return plan.high_precision_dtype if plan.framework.memory.states.weights < 4 else "fp32"


def stored_dtype(plan: Plan) -> str:
    """Return the dtype in which weights are loaded: the compute dtype where they are frozen, or where states are."""
    if plan.adapter is not None or plan.quantization != "none" or plan.framework.name == "deepspeed":
        return plan.high_precision_dtype
    return _trained_dtype(plan)


def _quantization(plan: Plan) -> dict[str, Any] | None:
    if plan.quantization == "none":
        return None
    stated = dict(QUANTIZED[plan.quantization])
    if "load_in_4bit" in stated:
        # Stored as the compute dtype, packed weights can be sharded and gathered like any others.
        stated |= dict.fromkeys(("bnb_4bit_compute_dtype", "bnb_4bit_quant_storage"), DTYPES[plan.dtype])
    return stated


def _adapter(adapter: Adapter, model: Model) -> dict[str, Any]:
    """Keys of peft's LoraConfig; layers by every name that transformers' classes have for them."""
    wanted = adapter.projections(gated=model.gated)
    named = [name for name, word in MODULE_NAMES.items() if word in wanted]
    whole_modules = [name for part in adapter.also_trained for name in WHOLE_MODULES[part]]
    return {
        "r": whole(adapter.rank),
        "lora_alpha": adapter.alpha,
        "lora_dropout": adapter.dropout,
        "target_modules": ALL_LINEAR if adapter.targets == ALL_LINEAR else named,
        "modules_to_save": whole_modules,
    }


def supplied(scenario: Scenario, learning_rate: str = "LEARNING_RATE in train.py") -> list[str]:
    """Return what the user supplies, and what the script leaves out, in sentences; and where the learning rate is."""
    work = scenario.workload
    samples = " and one of samples' lengths with --lengths" if work.lengths is not None else ""
    told = {
        f"train.py draws random tokens: name an array of token ids with --data{samples}": True,
        "WEIGHTS in the environment is the folder or Hugging Face name of the checkpoint": work.task == "finetune",
        f"workload.total_tokens is not stated: train.py trains {STEPS} steps": work.total_tokens is None,
        f"the learning rate is an example: {learning_rate}": True,
    }
    return [sentence for sentence, is_so in told.items() if is_so]


def script_words(scenario: Scenario) -> list[str]:
    """Return the words that follow the launcher: the script, and the weights it tunes."""
    return [SCRIPT, *(["--weights", "${WEIGHTS:?}"] if scenario.workload.task == "finetune" else [])]


NAMES_OF_MODELS: Final = ("model-name-or-path", "weights", "model-name", "model")
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
        named = (model_of(options.text(name)) for name in NAMES_OF_MODELS if options.has(name))
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
        "adapter": adapter_of(stated.get("adapter"), form, upcast=stated.get("upcast") is True),
        "compile": stated.get("compile"),
        "state_dtype": "bf16" if _trains_in_bf16(stated) else None,
    }
    keys = ("task", "sequence_length", "global_batch", "total_tokens", "lengths")
    workload = {key: stated.get(key) for key in keys} | {"packing": stated.get("packing") or None}
    return {"workload": without_none(workload), "plan": without_none(plan)}


def _trains_in_bf16(stated: Mapping[str, Any]) -> bool:
    """Whether the trained weights themselves are stored in 16 bits, which DeepSpeed does not leave to the script."""
    key = "trained_dtype" if "trained_dtype" in stated else "weights_dtype"
    return stated.get("trainer") != "deepspeed" and stated.get(key) == stated.get("compute_dtype") == "bfloat16"


def adapter_of(stated: Mapping[str, Any] | None, form: str | None, *, upcast: bool = False) -> Any:
    """Return ``plan.adapter`` of peft's keys next to weights of a form, beside which others are ``upcast`` or not."""
    if not stated:
        return "none"
    also = [part for part, names in WHOLE_MODULES.items() if set(names) & set(stated.get("modules_to_save") or ())]
    targets = stated.get("target_modules") or ALL_LINEAR
    named = dict.fromkeys(MODULE_NAMES[name] for name in targets if name in MODULE_NAMES)
    return without_none(
        {
            "kind": "qlora" if form and form.startswith("nf4") else "lora",
            "rank": stated.get("r"),
            "alpha": stated.get("lora_alpha"),
            "dropout": stated.get("lora_dropout"),
            "targets": ALL_LINEAR if targets == ALL_LINEAR else list(named),
            "also_trained": also or None,
            "upcast": upcast or None,
        }
    )
