"""Derive what keys of torchtune and MaxText say together: parts of names, products of degrees."""

import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

from sightline import catalog
from sightline.errors import InputError
from sightline.launching.hugging_face import model_of
from sightline.quantities import show

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
}
"""MaxText's sizes where a file has none."""


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
    targets = [*attention, *(MLP if said.get("model.apply_lora_to_mlp") is True else ())]
    steps, epochs = said.get("max_steps_per_epoch"), said.get("epochs", 1)
    return {
        **({"model.name": _model(name, models)} if name else {}),
        "model.kind": kind or "none",
        **({"model.lora_attn_modules": targets} if targets else {}),
        **({"steps": steps * epochs} if isinstance(steps, int) and isinstance(epochs, int) else {}),
        **({"data_parallel_shard_dim": None} if said.get("data_parallel_shard_dim") == -1 else {}),
    }


def _maxtext(said: Mapping[str, Any], models: Mapping[str, str]) -> dict[str, Any]:
    """The model by its name or its sizes, degrees over both networks, and samples of a replica."""
    named, is_own = said["model_name"] != "default", bool(_SIZED.keys() & said.keys())
    if not isinstance(samples := said["per_device_batch_size"], int):
        raise InputError(f"per_device_batch_size is {show(samples)}; read: a whole number of 1 or more")
    sizes = {"model_type": "llama", **{ours: said.get(key, _SIZED[key]) for ours, key in _SIZES.items()}}
    is_llama = not named and said.get("decoder_block", "llama2") == "llama2" and said.get("num_experts", 1) == 1
    sides = {axis: [said.get(f"{side}_{axis}_parallelism", 1) for side in ("ici", "dcn")] for axis in _AXES}
    degrees = {axis: _product(*both) for axis, both in sides.items()}
    if "ici_fsdp_parallelism" not in said:
        degrees["fsdp"] = None
    shared = [degrees[axis] or 1 for axis in ("tensor", "context", "pipeline")]
    stages = degrees["pipeline"] or 1
    rounds = said.get("num_pipeline_microbatches", -1)
    rounds = stages if rounds == -1 else rounds
    together = samples * prod(shared)
    kept: dict[str, Any] = {axis: degree for axis, degree in degrees.items() if degree and axis != "data"}
    kept |= {"fsdp": None, "is_sharded": False} if degrees["fsdp"] == 1 else {}
    return {
        "model_name": _model(str(said["model_name"]), models) if named and not is_own else sizes if is_llama else None,
        **kept,
        "micro": together // rounds if together % rounds == 0 else samples,
        "accumulation": said["gradient_accumulation_steps"] * rounds,
        **{key: None for key in ("num_pipeline_repeats", "capacity_factor") if said.get(key, -1) == -1},
    }


def _product(inner: Any, outer: Any) -> int | None:
    """A degree inside and between slices; None where one is left to the devices."""
    return inner * outer if isinstance(inner, int) and isinstance(outer, int) and min(inner, outer) > 0 else None


DERIVED: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, str]], dict[str, Any]]]] = {
    "torchtune": _torchtune,
    "MaxText": _maxtext,
}
"""By tool, what adds to its keys those that ``stacks.yaml`` reads."""
