"""Train a causal language model of transformers as training.json says, with DeepSpeed, accelerate or the Trainer.

Written by Sightline, and yours to change. Without ``--weights`` the model is that of model/config.json with random
weights, without ``--data`` its tokens are random: enough to measure a step. ``--data`` is an array of token ids (.npy).
"""

import argparse
import json
import time
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

Settings = dict[str, Any]
LEARNING_RATE = 1e-4
LARGEST_GRADIENT = 1.0
RANDOM_SAMPLES = 2**20


class Tokens(Dataset[dict[str, torch.Tensor]]):
    """Samples of equal length, cut from an array of tokens or drawn at random."""

    def __init__(self, settings: Settings, vocabulary: int, data: str | None) -> None:
        """Open the array, if there is one."""
        self.length, self.vocabulary = settings["sequence_length"], vocabulary
        self.tokens = None if data is None else np.load(data, mmap_mode="r")

    def __len__(self) -> int:
        """Return how many samples there are."""
        return RANDOM_SAMPLES if self.tokens is None else len(self.tokens) // self.length

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return a sample and its labels, which the model shifts."""
        if self.tokens is None:
            drawn = torch.Generator().manual_seed(index)
            ids = torch.randint(0, self.vocabulary, (self.length,), generator=drawn)
        else:
            part = self.tokens[index * self.length : (index + 1) * self.length]
            ids = torch.from_numpy(part.astype(np.int64))
        return {"input_ids": ids, "labels": ids}


def build_model(settings: Settings, weights: str | None) -> Any:
    """Return the model with its attention, quantized weights, adapters and recomputation."""
    import transformers

    dtype = getattr(torch, settings["weights_dtype"])
    options: dict[str, Any] = {"dtype": dtype, "attn_implementation": settings["attention"]}
    made: Any = transformers.AutoModelForCausalLM
    if weights is None:
        if settings["quantization"]:
            raise SystemExit("quantized weights are read from a checkpoint: name it with --weights")
        config = transformers.AutoConfig.from_pretrained("model")
        model = made.from_config(config, **options)
    else:
        if settings["quantization"]:
            packed: Any = transformers.BitsAndBytesConfig
            options["quantization_config"] = packed(**_quantized(settings["quantization"]))
        model = made.from_pretrained(weights, **options)
    model.config.use_cache = False
    if settings["recompute"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return with_adapters(model, settings["adapter"]) if settings["adapter"] else model


def _quantized(stated: Settings) -> Settings:
    """The stated keys of a quantization, its dtypes as PyTorch has them."""
    return {key: getattr(torch, value) if key.endswith("dtype") else value for key, value in stated.items()}


def with_adapters(model: Any, stated: Settings) -> Any:
    """Return the model with low-rank adapters on those of the named layers that it has."""
    peft: Any = import_module("peft")
    there = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    named: Settings = {
        key: [n for n in stated[key] if n in there] for key in ("target_modules", "modules_to_save") if stated[key]
    }
    if stated["target_modules"] == "all-linear":
        named["target_modules"] = "all-linear"
    model.enable_input_require_grads()
    return peft.get_peft_model(model, peft.LoraConfig(**{**stated, **named, "task_type": "CAUSAL_LM"}))


def build_optimizer(name: str, model: Any) -> Any:
    """Return an optimizer over what is trained."""
    trained = [p for p in model.parameters() if p.requires_grad]
    match name:
        case "adamw-8bit":
            bitsandbytes: Any = import_module("bitsandbytes")
            return bitsandbytes.optim.AdamW8bit(trained, lr=LEARNING_RATE)
        case "adamw-unfused":
            return torch.optim.AdamW(trained, lr=LEARNING_RATE, foreach=True)
        case "sgd" | "sgd-momentum":
            return torch.optim.SGD(trained, lr=LEARNING_RATE, momentum=0.9 if name == "sgd-momentum" else 0.0)
    return torch.optim.AdamW(trained, lr=LEARNING_RATE, fused=True)


def with_deepspeed(settings: Settings, model_of: Any, data: Dataset[Any], steps: int) -> None:
    """Train with DeepSpeed's engine as ds_config.json says."""
    deepspeed: Any = import_module("deepspeed")
    integrations: Any = import_module("transformers.integrations")
    config = json.loads(Path("ds_config.json").read_text())
    deepspeed.init_distributed()
    # While this lives, stage 3 shards weights as they are made.
    partitioned = integrations.HfDeepSpeedConfig(config)
    model = model_of()
    for name, parameter in model.named_parameters():
        parameter.use_muon = parameter.ndim == 2 and "embed" not in name and "head" not in name
    own = {} if "optimizer" in config else {"optimizer": build_optimizer(settings["optimizer"], model)}
    trained = [p for p in model.parameters() if p.requires_grad]
    engine, _, loader, _ = deepspeed.initialize(
        model=model, model_parameters=trained, training_data=data, config=config, **own
    )
    if settings["compile"]:
        engine.compile()
    batches = iter(loader)
    for step in range(steps):
        began = time.perf_counter()
        loss = torch.zeros(())
        for _ in range(engine.gradient_accumulation_steps()):
            batch = {key: value.to(engine.device) for key, value in next(batches).items()}
            with held_on_host(settings):
                loss = engine(**batch).loss
            engine.backward(loss)
            engine.step()
        report(step, loss, began, main=engine.global_rank == 0)
    del partitioned


def with_accelerate(settings: Settings, model_of: Any, data: Dataset[Any], steps: int) -> None:
    """Train with accelerate as its configuration says: FSDP2, or replicas whose gradients are summed."""
    accelerate: Any = import_module("accelerate")
    accelerator = accelerate.Accelerator(
        gradient_accumulation_steps=settings["accumulation"], fsdp_plugin=sharding_of(settings)
    )
    model = model_of()
    loader = DataLoader(data, batch_size=settings["micro_batch"])
    # Together, so that the optimizer gets the shards in place of the weights that it was made with.
    model, optimizer, loader = accelerator.prepare(model, build_optimizer(settings["optimizer"], model), loader)
    batches = iter(loader)
    for step in range(steps):
        began = time.perf_counter()
        loss = torch.zeros(())
        for _ in range(settings["accumulation"]):
            with accelerator.accumulate(model), held_on_host(settings):
                loss = model(**next(batches)).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
                optimizer.step()
                optimizer.zero_grad()
        report(step, loss, began, main=accelerator.is_main_process)


def sharding_of(settings: Settings) -> Any:
    """Return FSDP as accelerate's configuration states it, with gradients reduced in the stated dtype."""
    import os

    if os.environ.get("ACCELERATE_USE_FSDP") != "true":
        return None
    from torch.distributed.fsdp import MixedPrecisionPolicy

    utils: Any = import_module("accelerate.utils")
    plugin = utils.FullyShardedDataParallelPlugin()
    if settings["compute_dtype"] != settings["weights_dtype"] or settings["gradient_reduce_dtype"]:
        moved = settings["gradient_reduce_dtype"] or settings["compute_dtype"]
        plugin.mixed_precision_policy = MixedPrecisionPolicy(
            param_dtype=getattr(torch, settings["compute_dtype"]), reduce_dtype=getattr(torch, moved)
        )
    return plugin


def with_trainer(settings: Settings, model_of: Any, data: Dataset[Any], steps: int) -> None:
    """Train with transformers' Trainer as training_arguments.json says."""
    transformers: Any = import_module("transformers")
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    (arguments,) = parser.parse_json_file("training_arguments.json")
    arguments.max_steps = steps
    with held_on_host(settings):
        transformers.Trainer(model=model_of(), args=arguments, train_dataset=data).train()


def held_on_host(settings: Settings) -> Any:
    """Return what keeps saved activations in the host's memory, where the settings ask for it."""
    if not settings["offload_activations"]:
        return nullcontext()
    return torch.autograd.graph.save_on_cpu(pin_memory=torch.cuda.is_available())


def report(step: int, loss: torch.Tensor, began: float, *, main: bool) -> None:
    """Print a step's loss and seconds on the first rank."""
    value = loss.item()
    if main:
        print(f"step {step}: loss {value:.4f}, {time.perf_counter() - began:.3f} s", flush=True)


TRAINERS = {"deepspeed": with_deepspeed, "accelerate": with_accelerate, "transformers": with_trainer}


def main() -> None:
    """Read the settings and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", default="training.json")
    parser.add_argument("--weights", help="folder or Hugging Face name of a checkpoint; default: random weights")
    parser.add_argument("--data", help="array of token ids (.npy); default: random tokens")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--deepspeed_config", help="as deepspeed's launcher passes it on")
    parser.add_argument("--local_rank", type=int, help="as deepspeed's launcher passes it on")
    asked = parser.parse_args()
    settings = json.loads(Path(asked.settings).read_text())
    if settings["tf32"]:
        torch.set_float32_matmul_precision("high")
    data = Tokens(settings, settings["vocabulary"], asked.data)
    TRAINERS[settings["trainer"]](
        settings, lambda: build_model(settings, asked.weights), data, asked.steps or settings["steps"]
    )


if __name__ == "__main__":
    main()
