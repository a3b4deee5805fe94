"""Hugging Face's Trainer: its TrainingArguments as JSON, the script that trains with them, and the file read back.

Keys are those of transformers 5 (transformers/training_args.py); release 4 has them too.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from sightline.errors import refuse
from sightline.frameworks.choices import FUSIONS
from sightline.launching.hugging_face import model_of
from sightline.launching.launch import Launch, Reading
from sightline.launching.options import Options, plain, refuse_values, without_none
from sightline.launching.readers import reader, with_unread
from sightline.launching.shell import command_line
from sightline.launching.source import Source, named_settings, source_of
from sightline.launching.training import script
from sightline.launching.training.rules import TRAINER_OPTIMIZERS, fuses_with_liger, refusals
from sightline.launching.training.script import Script, adapter_of, script_of
from sightline.launching.training.shared import (
    devices_of,
    launcher_and_program,
    missing_of,
    on_every_node,
    torchrun,
    unwritten,
    whole,
    with_micro_batch,
)
from sightline.scenario import Scenario

ARGUMENTS: Final = "training_arguments.json"
WRITTEN: Final = script.WRITTEN | {"recompute", "state_dtype", "overlap_gradient_reduce", "zero_stage", *FUSIONS}
"""Fields of a plan that have arguments, here or in the script's settings."""
_OPTIMIZERS: Final = {
    **dict.fromkeys(("adamw_torch_fused", "paged_adamw_32bit", "paged_adamw"), "adamw"),
    **dict.fromkeys(("adamw_torch", "adamw_hf"), "adamw-unfused"),
    **dict.fromkeys(("adamw_bnb_8bit", "adamw_8bit", "adamw_torch_8bit", "paged_adamw_8bit"), "adamw-8bit"),
    "sgd": "sgd",
    "muon": "muon",
}


def write(scenario: Scenario) -> Launch:
    """Return the launch of a scenario.

    Raises:
        InputError: The Trainer or the script does not offer something of the plan; a sentence each.
    """
    refuse(refusals(scenario))
    asked = with_micro_batch(scenario)
    words = torchrun(asked.cluster, *script.script_words(asked))
    files = script.files_of(asked, "transformers", asked.cluster.devices)
    return Launch(
        framework="transformers",
        command=command_line(words, {"--settings": script.SETTINGS}),
        files={ARGUMENTS: script.json_text(arguments(asked)), **files},
        without_counterpart=[
            *unwritten(asked.plan, WRITTEN, "the Trainer"),
            *script.supplied(asked, f"learning_rate in {ARGUMENTS}"),
            *on_every_node(asked.cluster),
        ],
    )


def arguments(scenario: Scenario) -> dict[str, Any]:
    """Return the Trainer's arguments."""
    plan = scenario.plan
    written: dict[str, Any] = {
        "output_dir": "out",
        "per_device_train_batch_size": whole(plan.sequences),
        "gradient_accumulation_steps": script.accumulation(scenario),
        "max_steps": script.settings_of(scenario, "transformers", scenario.cluster.devices)["steps"],
        "learning_rate": 1e-4,
        "optim": TRAINER_OPTIMIZERS[plan.optimizer],
        "bf16": plan.dtype == "bf16",
        "fp16": plan.dtype == "fp16",
        "gradient_checkpointing": plan.recompute == "full",
        "torch_compile": plan.compile,
        "ddp_find_unused_parameters": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
    }
    recomputed = {"gradient_checkpointing_kwargs": {"use_reentrant": False}} if plan.recompute == "full" else {}
    chosen = {"tf32": plan.dtype == "tf32", "use_liger_kernel": fuses_with_liger(plan)}
    return {**written, **recomputed, **{name: True for name, is_chosen in chosen.items() if is_chosen}}


def claims(found: Source) -> bool:
    """Whether these are arguments of the Trainer, or a command of the script that trains with them."""
    if found.kind == "command":
        return _has_arguments(found, Options(found.words)) or _is_script(found)
    return "per_device_train_batch_size" in found.mapping


def _has_arguments(found: Source, options: Options) -> bool:
    """Whether the options of a command, or the file that they name, are arguments of the Trainer."""
    names = {*options.names(), *(key.replace("_", "-") for key in _file_of(found, options))}
    return "per-device-train-batch-size" in names


def _file_of(found: Source, options: Options) -> Mapping[str, Any]:
    """The file of arguments that a command names, as trl's scripts take it; empty where there is none."""
    path = found.folder / options.text("config")
    return source_of(path).mapping if path.suffix in (".yaml", ".yml", ".json") and path.is_file() else {}


def _is_script(found: Source) -> bool:
    return script.SCRIPT in found.words and "--settings" in found.words


def read(found: Source) -> Reading:
    """Return what arguments say as a scenario."""
    launcher, options = launcher_and_program(found.words)
    devices_of(launcher)
    started = launcher.unread() if launcher is not options else {}
    return with_unread(_read(found), "launcher", started, of="the launcher's")


def _read(found: Source) -> Reading:
    """The same without options of the launcher that nobody reads."""
    stated, trained, devices = dict(found.mapping), Script(), None
    unknown, opened = list[str](), dict[str, str]()
    if found.kind == "command":
        launcher, options = launcher_and_program(found.words)
        devices = devices_of(launcher)
        launcher.refuse()
        unknown = list(launcher.unknown.values())
        file = _file_of(found, options)
        stated = {name.replace("-", "_"): plain(options.words(name)) for name in options.names()}
        stated = {**file, **{name: value for name, value in stated.items() if name != "config" or not file}}
        if "lora_target_modules" in stated and options.has("lora-target-modules"):
            stated["lora_target_modules"] = list(options.words("lora-target-modules"))
        opened = {name.replace("-", "_"): said for name, said in options.unknown.items()}
        stated = {name: value for name, value in stated.items() if name not in opened}
        trained = script_of(found, options)
        if _is_script(found):
            stated = dict(named_settings(found, ARGUMENTS, "the Trainer's configuration"))
    notes = _with_defaults_of_trl(found, stated)
    if trained.model is None and isinstance(named := stated.get("model_name_or_path"), str):
        trained = replace(trained, model=model_of(named))
    choices = {"optim": tuple(_OPTIMIZERS)}
    refuse_values(stated, numbers=dict.fromkeys((*_BATCH_SIZES, *_LENGTHS), 1), choices=choices)
    batch, steps = stated.get("per_device_train_batch_size") or 8, stated.get("gradient_accumulation_steps") or 1
    workload = {"task": "finetune", **trained.workload}
    for length in (stated[key] for key in _LENGTHS if stated.get(key)):
        workload.setdefault("sequence_length", length)
    elsewhere = _OF_SCRIPTS if found.kind == "command" else ()
    known = [*_SAYS, *(name.replace("-", "_") for name in (*script.NAMES_OF_MODELS, *elsewhere))]
    given = {key: value for key, value in stated.items() if key not in known}
    given |= {"fsdp": stated["fsdp"]} if "hybrid" in str(stated.get("fsdp")) else {}
    missing = {key: said for name, said in opened.items() for key in _SAYS.get(name, ())}
    missing |= _own_adapter(stated) | ({"plan.zero_stage": opened["deepspeed"]} if "deepspeed" in opened else {})
    if devices and not {"global_batch", *missing} & {*workload, "workload.global_batch"}:
        workload["global_batch"] = batch * steps * devices
    plan = {"framework": "transformers", **trained.plan, **_plan(stated, trained.settings)}
    plan = {key: value for key, value in plan.items() if f"plan.{key}" not in missing}
    scenario = without_none({"model": trained.model, "workload": workload, "plan": plan})
    each = f"samples per optimizer step: {batch * steps} on each device"
    reading = Reading(
        framework="transformers",
        scenario=scenario,
        missing={**missing_of(scenario, devices, batch=each), **missing},
        samples_per_device=None if "workload.global_batch" in missing else batch * steps,
        without_counterpart=[
            *notes,
            *unknown,
            *(said for name, said in opened.items() if name not in _SAYS and reader("trainer").matters({name: said})),
        ],
    )
    return with_unread(reading, "trainer", given, known, "the Trainer's")


_BATCH_SIZES: Final = ("per_device_train_batch_size", "gradient_accumulation_steps")
_LENGTHS: Final = ("max_length", "max_seq_length", "model_max_length", "block_size")
"""What trl's and transformers' own scripts call the tokens of a sample."""
_SAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "per_device_train_batch_size": ("plan.micro_batch", "workload.global_batch"),
    "gradient_accumulation_steps": ("workload.global_batch",),
    "optim": ("plan.optimizer",),
    "torch_compile": ("plan.compile",),
    "fsdp": ("plan.zero_stage",),
    "use_peft": ("plan.adapter",),
    **dict.fromkeys(("lora_r", "lora_alpha", "lora_dropout", "lora_target_modules"), ("plan.adapter",)),
    **dict.fromkeys(("load_in_4bit", "load_in_8bit"), ("plan.quantization",)),
    **dict.fromkeys(_LENGTHS, ("workload.sequence_length",)),
    **dict.fromkeys(("bf16", "fp16", "tf32"), ("plan.dtype",)),
    **dict.fromkeys(("gradient_checkpointing", "activation_checkpointing"), ("plan.recompute",)),
}
"""Keys of a scenario by the arguments that say them."""


def of_script(found: Source, options: Options) -> tuple[Script, Reading]:
    """Return what a command tells its script, and the reading of its arguments, which may be the Trainer's."""
    given = options.unread((*_OF_SCRIPTS, *script.NAMES_OF_MODELS))
    if _has_arguments(found, options):
        reading = _read(found)
        plan = {key: value for key, value in reading.scenario["plan"].items() if key != "framework"}
        return Script(model=reading.scenario.get("model"), workload=reading.scenario["workload"], plan=plan), reading
    return script_of(found, options), with_unread(
        Reading(framework="", scenario={}), "trainer", given, of="the script's"
    )


def with_script(reading: Reading, own: Reading, launcher: Options) -> Reading:
    """Return the reading of a launch with what its script's own arguments leave open, and its launcher's."""
    missing = {key: what for key, what in own.missing.items() if key.startswith("plan.")}
    said = [*reading.without_counterpart, *own.without_counterpart]
    joined = replace(
        reading,
        samples_per_device=reading.samples_per_device or own.samples_per_device,
        missing={**reading.missing, **missing},
        unread=[*reading.unread, *own.unread],
        without_counterpart=list(dict.fromkeys(said)),
    )
    return with_unread(joined, "launcher", launcher.unread(), of="the launcher's")


_OF_SCRIPTS: Final = ("settings", "weights", "data", "lengths", "deepspeed", "deepspeed-config", "local-rank")
"""Arguments that are read elsewhere, or are those of the script that launches are written with."""


def _sharding(fsdp: str) -> dict[str, Any]:
    """The fields that the words of ``fsdp`` say, such as ``full_shard auto_wrap``."""
    if fsdp in ("", "False") or "no_shard" in fsdp:
        return {}
    offloads = {"offload": ["optimizer", "parameters"]} if "offload" in fsdp else {}
    return {"framework": "fsdp", "zero_stage": 2 if "shard_grad_op" in fsdp or "zero2" in fsdp else 3, **offloads}


def _adapter(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The adapter that the arguments of trl's scripts say, on weights of 16, 8 or 4 bits."""
    if stated.get("use_peft") is not True:
        return {}
    form = "nf4" if stated.get("load_in_4bit") is True else "int8" if stated.get("load_in_8bit") is True else None
    named = stated.get("lora_target_modules") or ["q_proj", "v_proj"]
    whole_model = named in (["all-linear"], "all-linear")
    keys = {"r": stated.get("lora_r", 16), "target_modules": "all-linear" if whole_model else named}
    keys |= {key: stated.get(key) for key in ("lora_alpha", "lora_dropout")}
    return {"adapter": adapter_of(keys, form), "quantization": form}


_SCRIPTS_OF_TRL: Final = ("sft.py", "sft_vlm.py", "run_sft.py", "sft_gemma3.py", "sft_gpt_oss.py")
_OF_TRL: Final = {
    *("chat_template", "dataset_mixture", "dataset_mixer", "assistant_only_loss", "max_seq_length", "use_peft")
}
"""Keys that trl's arguments have beside the Trainer's."""


def _with_defaults_of_trl(found: Source, stated: dict[str, Any]) -> list[str]:
    """Add what trl's trainer does by default, as its releases since 0.20 do, and say so in sentences."""
    scripts = {word.rpartition("/")[2] for word in found.words}
    if not scripts & {*_SCRIPTS_OF_TRL} and (found.kind == "command" or not _OF_TRL & stated.keys()):
        return []
    added = {} if "gradient_checkpointing" in stated else {"gradient_checkpointing": True}
    added |= {} if {"bf16", "fp16"} & stated.keys() else {"bf16": True}
    stated |= added
    return [f"{key} is not stated: read as true, as trl has it since release 0.20" for key in added]


_OWN_ADAPTERS: Final = (
    *("lora_enable", "use_lora", "lora", "q_lora", "qlora", "use_qlora", "use_peft_lora", "use_4bit_quantization"),
    *("lora_r", "lora_rank", "lora_alpha", "lora_target_modules", "bits", "load_in_4bit", "load_in_8bit"),
)
"""By what scripts other than trl's are told of an adapter."""


def _own_adapter(stated: Mapping[str, Any]) -> dict[str, str]:
    """What is missing where a script has an adapter by arguments of its own."""
    names = [name for name in _OWN_ADAPTERS if stated.get(name) not in (None, False)]
    if not names or "use_peft" in stated:
        return {}
    return {"plan.adapter": f"{names[0]} is an argument of the script's own; none, or kind, rank and targets"}


def _plan(stated: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    formats = [name for name in ("bf16", "fp16") if stated.get(name) is True]
    recomputes = stated.get("gradient_checkpointing") or stated.get("activation_checkpointing")
    liger = stated.get("use_liger_kernel") is True
    optimizer = {"optimizer": _OPTIMIZERS.get(str(stated.get("optim", "adamw_torch_fused")))} if not settings else {}
    return without_none(
        {
            "micro_batch": stated.get("per_device_train_batch_size") or 8,
            "dtype": formats[0] if formats else "tf32" if stated.get("tf32") is True else "fp32",
            "recompute": "full" if recomputes is True else "none",
            "compile": stated.get("torch_compile") is True,
            **(dict.fromkeys(FUSIONS, True) if liger else {}),
            **optimizer,
            **_adapter(stated),
            **_sharding(str(stated.get("fsdp") or "")),
        }
    )
