"""Derive what keys of tools say together, and spell it: parts of names, products of degrees."""

import re
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, Final

from sightline import catalog
from sightline.errors import InputError
from sightline.launching.hugging_face import configuration, model_of, repository_of
from sightline.launching.launch import SHARING
from sightline.launching.training.shared import whole
from sightline.loading.models import resolve_model
from sightline.quantities import show
from sightline.scenario import Model, Scenario

MLP: Final = ("gate_proj", "up_proj", "down_proj")
_AXES: Final = ("tensor", "context", "expert", "pipeline", "fsdp", "data")
_SIZES: Final = {
    "hidden_size": "base_emb_dim",
    "num_hidden_layers": "base_num_decoder_layers",
    "num_attention_heads": "base_num_query_heads",
    "num_key_value_heads": "base_num_kv_heads",
    "intermediate_size": "base_mlp_dim",
    "head_dim": "head_dim",
    "vocab_size": "vocab_size",
    "tie_word_embeddings": "logits_via_embedding",
    "rope_theta": "rope_max_timescale",
    "rms_norm_eps": "normalization_layer_epsilon",
}
"""Keys of a configuration of Llama by MaxText's."""
_SIZED: Final = {
    "base_emb_dim": 2048,
    "base_num_decoder_layers": 16,
    "base_num_query_heads": 16,
    "base_num_kv_heads": 16,
    "base_mlp_dim": 7168,
    "head_dim": 128,
    "vocab_size": 32_000,
    "logits_via_embedding": False,
    "rope_max_timescale": 10_000,
    "normalization_layer_epsilon": 1e-5,
}
"""MaxText's sizes where a file has none."""
_RECIPE: Final = re.compile(r"(.*?)(?:_(pretrain|sft|peft|lora|dora)(?:_.*)?)?")
"""Names of Megatron-Bridge's recipes: a model, and what is trained."""
_TUNED: Final = ("model.restore_from_path", "model.data.train_ds", "checkpoint.pretrained_checkpoint")
_BY_MEGATRON: Final = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_attention_heads",
    "intermediate_size": "ffn_hidden_size",
    "num_key_value_heads": "num_query_groups",
    "head_dim": "kv_channels",
    "vocab_size": "vocab_size",
    "tie_word_embeddings": "share_embeddings_and_output_weights",
}
_SHAPED: Final = 4
"""Sizes of which none can be left out."""
_NO_SHAPES: Final = {"rope_max_timescale", "normalization_layer_epsilon"}
_ATTENTION: Final = ("q_proj", "k_proj", "v_proj", "o_proj")
_PROJECTIONS: Final = "model.lora_attn_modules"
"""Axes along which several devices work on the same samples."""


def _model(name: str, models: Mapping[str, str]) -> str:
    """The catalog's name of a model that a tool spells with other signs; the name itself for none."""
    bare = re.sub(r"[_-](instruct|base|it)$", "", name)
    signs = {re.sub(r"[^a-z0-9]", "", known): known for known in catalog.names("models")}
    return models.get(bare) or signs.get(re.sub(r"[^a-z0-9]", "", bare.lower())) or model_of(bare) or name


def _torchtune(said: Mapping[str, Any], models: Mapping[str, str]) -> dict[str, Any]:
    """The model and the kind of adapter of its builder's name, and what has adapters."""
    builder = str(said.get("model._component_", "")).rpartition(".")[2]
    parts = re.fullmatch(r"(qlora_|lora_|)(.*)", builder)
    kind, name = ("", "") if parts is None else (parts[1].rstrip("_"), parts[2])
    kind = "qlora" if kind and said.get("model.quantize_base") is True else kind
    attention = ["o_proj" if one == "output_proj" else one for one in said.get("model.lora_attn_modules", ())]
    targets: Any = [*attention, *(MLP if said.get("model.apply_lora_to_mlp") is True else ())]
    targets = "all-linear" if {*targets} >= {*_ATTENTION, *MLP} else targets
    steps, epochs = said.get("max_steps_per_epoch"), said.get("epochs", 1)
    return {
        **({"model.name": _model(name, models)} if name else {}),
        "model.kind": kind or "none",
        **({"model.lora_attn_modules": targets} if targets else {}),
        **({"steps": steps * epochs} if isinstance(steps, int) and isinstance(epochs, int) else {}),
        **({"data_parallel_shard_dim": None} if said.get("data_parallel_shard_dim") == -1 else {}),
        # Its plans of tensor parallelism split activations along the sequence (models/llama3/_parallelism.py).
        **({"sequence": True} if said.get("tensor_parallel_dim", 1) != 1 else {}),
    }


def _as_torchtune(stated: Mapping[str, Any], scenario: Scenario) -> dict[str, Any]:
    """Return keys with the adapter's builder and projections, the steps and the recipe as torchtune spells them."""
    plan, kept = scenario.plan, {key: value for key, value in stated.items() if value != "none"}
    kind = kept.pop("model.kind", "") if plan.adapter else ""
    renamed = {"steps": "max_steps_per_epoch", "reshard": "fsdp_reshard_after_forward"}
    kept |= {renamed[key]: kept.pop(key) for key in renamed.keys() & kept.keys()}
    if kind and plan.adapter:
        targets = [*_ATTENTION, *MLP] if plan.adapter.targets == "all-linear" else kept[_PROJECTIONS]
        head, dot, builder = kept["model._component_"].rpartition(".")
        attention = ["output_proj" if name == "o_proj" else name for name in targets if name not in MLP]
        kept |= {"model._component_": f"{head}{dot}{kind}_{builder}", _PROJECTIONS: attention}
        kept |= {"model.apply_lora_to_mlp": bool({*MLP} & {*targets}), "model.apply_lora_to_output": False}
    if plan.tensor_parallel > 1:
        kept["tensor_parallel_plan._component_"] = "torchtune.models.llama3.base_llama_tp_plan"
    if (shard := kept.get("data_parallel_shard_dim")) is not None:
        kept["data_parallel_replicate_dim"] = whole(plan.data_parallel) // shard
    alone = "single_device" if plan.zero_stage == 0 and scenario.cluster.devices == 1 else "distributed"
    kept["recipe"] = f"{'lora' if kind else 'full'}_finetune_{alone}"
    return kept


def _maxtext(said: Mapping[str, Any], models: Mapping[str, str]) -> dict[str, Any]:
    """The model by its name or its sizes, degrees over both networks, and samples of a replica."""
    named, is_own = said["model_name"] != "default", bool((_SIZED.keys() - _NO_SHAPES) & said.keys())
    sizes = {"model_type": "llama", **{ours: said.get(key, _SIZED[key]) for ours, key in _SIZES.items()}}
    is_llama = not named and said.get("decoder_block", "llama2") == "llama2" and said.get("num_experts", 1) == 1
    stated = _model(str(said["model_name"]), models) if named and not is_own else sizes if is_llama else None
    model = _known(stated)
    sides = {axis: [said.get(f"{side}_{axis}_parallelism", 1) for side in ("ici", "dcn")] for axis in _AXES}
    degrees = {axis: _product(*both) for axis, both in sides.items()}
    if "ici_fsdp_parallelism" not in said:
        degrees["fsdp"] = None
    devices = prod(filter(None, degrees.values())) if all(degrees.values()) and _is_laid_out(said) else None
    stages = degrees["pipeline"] or 1
    rounds = said.get("num_pipeline_microbatches", -1)
    rounds = stages if rounds == -1 else rounds
    together = _samples(said["per_device_batch_size"], prod(degrees[axis] or 1 for axis in SHARING))
    # Ranks of the experts and of the context shard all other weights too (logical_axis_rules of base.yml).
    shard = degrees["fsdp"] and degrees["expert"] and degrees["fsdp"] * degrees["expert"]
    kept: dict[str, Any] = {axis: degree for axis, degree in degrees.items() if degree and axis != "data"}
    # Without an axis that shards, ranks are replicas, if there are several.
    if shard == degrees["context"] == 1:
        kept |= {"fsdp": None, "is_sharded": None if degrees["data"] == 1 and devices else False}
    else:
        kept["fsdp"] = shard
    repeats = said.get("num_pipeline_repeats", -1)
    if repeats == -1:
        repeats = model.layers // (stages * said.get("num_layers_per_pipeline_stage", 1)) if model and stages > 1 else 1
    return {
        "model_name": stated,
        **kept,
        **({"expert_tensor": degrees["tensor"]} if model and model.experts and degrees["tensor"] else {}),
        "micro": together // rounds if together % rounds == 0 else together // (stages or 1),
        "accumulation": said["gradient_accumulation_steps"] * rounds,
        **({"repeats": repeats, "schedule": "interleaved" if repeats > 1 else "gpipe"} if stages > 1 else {}),
        "devices": devices,
        "capacity_factor": _capacity(said) if model is None or model.experts else None,
    }


def _capacity(said: Mapping[str, Any]) -> Any:
    """Tokens that an expert takes over its even share, which ``sparse_matmul`` leaves out; None: all that chose it."""
    if said["sparse_matmul"]:
        return None
    factor = str(said.get("capacity_factor", -1))
    if not re.fullmatch(r"\d{1,9}(\.\d{0,20})?", factor) or float(factor) == 0:
        raise InputError(
            f"sparse_matmul is false with capacity_factor {factor}: every expert works on every token, which is not "
            "predicted; read: a capacity_factor above 0, or sparse_matmul true"
        )
    return float(factor)


def _samples(stated: Any, ranks: int) -> int:
    """Samples that devices take together, each a share."""
    samples = float(stated) * ranks if re.fullmatch(r"\d{1,9}(\.\d{0,20})?(e-\d)?", str(stated)) else 0.0
    if samples < 1 or abs(samples - round(samples)) > 1e-6:
        raise InputError(
            f"per_device_batch_size is {show(stated)}; read: whole samples on the {ranks} devices of a replica"
        )
    return round(samples)


def _is_laid_out(said: Mapping[str, Any]) -> bool:
    """Whether no axis of the mesh is left to the number of devices."""
    return {"ici_data_parallelism", "ici_fsdp_parallelism"} <= said.keys() and said.get("num_slices", -1) == 1


def _known(stated: Any) -> Model | None:
    """The model of a name of the catalog or of sizes; None for others."""
    is_known = isinstance(stated, Mapping) or stated in catalog.names("models")
    return resolve_model(stated, Path()).model if is_known else None


def sizes_of(tool: str, model: Model) -> dict[str, Any]:
    """Return the sizes of a model by a tool's keys; nothing where it has none, or none such a model."""
    found = configuration(model) if tool == "MaxText" else None
    keys = found[1] if found and found[0] == "LlamaConfig" else {}
    return {key: keys[ours] for ours, key in _SIZES.items() if ours in keys}


def _as_maxtext(stated: Mapping[str, Any], scenario: Scenario) -> dict[str, Any]:
    """Return keys with the mesh, the samples of a device, sizes and the data as MaxText spells them."""
    plan, model = scenario.plan, scenario.model
    degrees = {axis: stated.get(axis, 1) for axis in ("tensor", "context", "expert", "pipeline")}
    ranks, experts = whole(plan.data_parallel), degrees["expert"]
    shard = 1 if plan.zero_stage == 0 else stated.get("fsdp", ranks)
    mesh = {**degrees, "fsdp": max(shard // experts, 1), "data": max(ranks // max(shard, experts), 1)}
    kept = dict(stated)
    rounds = stated["accumulation"] if degrees["pipeline"] > 1 else 1
    each = stated["micro"] * rounds / prod(degrees[axis] for axis in SHARING)
    kept |= {f"ici_{axis}_parallelism": degree for axis, degree in mesh.items()}
    kept |= {"per_device_batch_size": int(each) if each.is_integer() else each}
    kept |= {"gradient_accumulation_steps": stated["accumulation"] // rounds}
    if (stages := degrees["pipeline"]) > 1:
        parts = stages * whole(plan.virtual_stages)
        kept |= {"num_pipeline_microbatches": rounds, "num_pipeline_repeats": whole(plan.virtual_stages)}
        kept |= {"num_layers_per_pipeline_stage": max(model.layers // parts, 1)}
    if "model_name" not in kept:
        kept |= sizes_of("MaxText", model)
    kept |= {"sparse_matmul": False} if "capacity_factor" in kept else {}
    is_tpu = scenario.cluster.parts[0].device.name.startswith("tpu")
    kept |= {"hardware": "tpu" if is_tpu else "gpu", **({"attention": "flash"} if is_tpu else {})}
    if scenario.workload.task == "pretrain":
        return {"base_config": "base.yml", **kept, "dataset_type": "synthetic"}
    del kept["dataset_type"]
    tokens = {"tokenizer_type": "huggingface", "tokenizer_path": repository_of(model.name)}
    return {"base_config": "post_train/sft.yml", **kept, "packing": True, "max_segments_per_seq": 32, **tokens}


def _megatron(said: Mapping[str, Any], models: Mapping[str, str]) -> dict[str, Any]:
    """The model by a recipe's name or by Megatron's sizes, what is trained, and the devices."""
    stem, mode = _RECIPE.fullmatch(str(said.get("recipe", ""))).groups()  # type: ignore[union-attr] # matches all
    mode, devices = said.get("mode", mode), [said.get(f"trainer.{key}") for key in ("devices", "num_nodes")]
    has_adapter = mode in ("lora", "peft") or "peft.dim" in said or "model.peft.peft_scheme" in said
    is_tuned = has_adapter or mode == "sft" or any(key.startswith(_TUNED) for key in said)
    return {
        "model.name": _model(stem, models) if stem else _sized(said),
        "task": "finetune" if is_tuned else "pretrain",
        "kind": "lora" if has_adapter else "none",
        "devices": prod(devices) if all(isinstance(count, int) for count in devices) else None,
    }


def _sized(said: Mapping[str, Any]) -> dict[str, Any] | None:
    """A model like Llama or GPT-2 of Megatron's sizes; None for others."""
    sizes = {ours: said[f"model.{key}"] for ours, key in _BY_MEGATRON.items() if f"model.{key}" in said}
    words = [str(said.get(f"model.{key}", "")).lower() for key in ("normalization", "position_embedding_type")]
    gated = said.get("model.gated_linear_unit", said.get("model.activation") == "swiglu")
    biased = said.get("model.add_bias_linear", said.get("model.bias", False))
    families = {("rmsnorm", "rope", True, False): "llama", ("layernorm", "learned_absolute", False, True): "gpt2"}
    family = families.get((*words, gated, biased))
    is_plain = family and said.get("model.num_moe_experts", 1) == 1 and len(sizes) >= _SHAPED
    return {"model_type": family, **sizes} if is_plain else None


def vocabulary_of(model: Any) -> dict[str, str]:
    """Return what is missing of a model whose vocabulary only its tokenizer tells."""
    is_open = isinstance(model, Mapping) and "vocab_size" not in model
    return {"model.vocab_size": "the tokens of its tokenizer"} if is_open else {}


def _product(inner: Any, outer: Any) -> int | None:
    """A degree inside and between slices; None where one is left to the devices."""
    return inner * outer if isinstance(inner, int) and isinstance(outer, int) and min(inner, outer) > 0 else None


DERIVED: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, str]], dict[str, Any]]]] = {
    "torchtune": _torchtune,
    "MaxText": _maxtext,
    "NeMo": _megatron,
    "Megatron-Bridge": _megatron,
}
"""By tool, what adds to its keys those that ``stacks.yaml`` reads."""
SPELLED: Final[Mapping[str, Callable[[Mapping[str, Any], Scenario], dict[str, Any]]]] = {
    "torchtune": _as_torchtune,
    "MaxText": _as_maxtext,
}
"""By tool, what makes its own keys of those that ``stacks.yaml`` writes."""
