"""Train a causal language model of transformers as training.json says, with DeepSpeed, accelerate or the Trainer.

Written by Sightline, and yours to change. Without ``--weights`` the model is that of model/config.json with random
weights, without ``--data`` its tokens are random: enough to measure a step. ``--data`` is an array of token ids (.npy),
``--lengths`` one of the lengths of its samples where they differ. Samples are padded to the longest of their batch, or
packed into rows.
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
IGNORED = -100
RANDOM_ROWS = 2**20
RANDOM_SAMPLES = 4096
OPEN_ROWS = 64


class Tokens(Dataset[dict[str, torch.Tensor]]):
    """Rows of samples, whose tokens are cut from an array or drawn at random."""

    def __init__(self, settings: Settings, data: str | None, lengths: str | None) -> None:
        """Open the arrays, if there are any, and spread samples over rows."""
        self.length, self.vocabulary = settings["sequence_length"], settings["vocabulary"]
        self.tokens = None if data is None else np.load(data, mmap_mode="r")
        whole = np.full(1 if self.tokens is None else len(self.tokens) // self.length, self.length)
        there = lengths_of(settings["lengths"], data, lengths) if settings["lengths"] else whole
        self.samples, self.starts = np.clip(there, 1, self.length), np.cumsum(there) - there
        self.packs = settings["packing"]
        self.rows = packed(self.samples, self.length) if self.packs else [[n] for n in range(len(self.samples))]

    def __len__(self) -> int:
        """Return how many rows there are."""
        return RANDOM_ROWS if self.tokens is None else len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return a row and its labels, which the model shifts; packed samples begin again at position 0."""
        drawn = torch.Generator().manual_seed(index)
        samples = self.rows[index % len(self.rows)]
        ids = torch.cat([self.sample(n, drawn) for n in samples])
        if not self.packs:
            return {"input_ids": ids, "labels": ids}
        # What is left of the row is one more sample, of which nothing is learned.
        rest = self.length - len(ids)
        ends = [int(self.samples[n]) for n in samples] + [rest] * (rest > 0)
        positions = torch.cat([torch.arange(end) for end in ends])
        labels = torch.nn.functional.pad(ids, (0, rest), value=IGNORED).masked_fill(positions == 0, IGNORED)
        return {"input_ids": torch.nn.functional.pad(ids, (0, rest)), "labels": labels, "position_ids": positions}

    def sample(self, number: int, drawn: torch.Generator) -> torch.Tensor:
        """Return the tokens of a sample."""
        count = int(self.samples[number])
        if self.tokens is None:
            return torch.randint(0, self.vocabulary, (count,), generator=drawn)
        start = int(self.starts[number])
        return torch.from_numpy(self.tokens[start : start + count].astype(np.int64))


def lengths_of(stated: Settings, data: str | None, lengths: str | None) -> Any:
    """Return the lengths of samples: those of an array, or random ones of a distribution."""
    if data is not None and lengths is None:
        raise SystemExit("--data holds samples of several lengths: name the array of them with --lengths")
    drawn = drawn_lengths(stated) if lengths is None else np.load(lengths)
    return drawn.astype(np.int64)


def drawn_lengths(stated: Settings) -> Any:
    """Return random lengths of samples of a distribution."""
    random, kind = np.random.default_rng(0), stated["distribution"]
    drawn: Any
    if kind == "empirical":
        drawn = random.choice(stated["values"], RANDOM_SAMPLES)
    elif kind == "uniform":
        drawn = random.uniform(stated["low"], stated["high"], RANDOM_SAMPLES)
    elif kind == "normal":
        drawn = random.normal(stated["mean"], stated["deviation"], RANDOM_SAMPLES)
    else:
        variance = np.log(1.0 + (stated["deviation"] / stated["mean"]) ** 2)
        drawn = random.lognormal(np.log(stated["mean"]) - variance / 2.0, np.sqrt(variance), RANDOM_SAMPLES)
    return np.clip(np.round(drawn), stated.get("low", 1.0), stated.get("high", np.inf))


def packed(lengths: Any, longest: int) -> list[list[int]]:
    """Return rows of whole samples, by number: each sample goes into the first open row that has room for it."""
    rows: list[list[int]] = []
    left: dict[int, int] = {}
    for number, length in enumerate(lengths.tolist()):
        row = next((row for row, room in left.items() if length <= room), len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append(number)
        left[row] = left.get(row, longest) - length
        if len(left) > OPEN_ROWS:
            del left[min(left)]
    return rows


def padded(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Return a batch of rows that are filled up to its longest, behind which causal attention never looks."""
    pad = torch.nn.utils.rnn.pad_sequence
    values = {"labels": IGNORED}
    return {key: pad([row[key] for row in rows], batch_first=True, padding_value=values.get(key, 0)) for key in rows[0]}


def build_model(settings: Settings, weights: str | None) -> Any:
    """Return the model with its attention, quantized weights, adapters and recomputation."""
    import transformers

    dtype = getattr(torch, settings["weights_dtype"])
    options: dict[str, Any] = {"dtype": dtype, "attn_implementation": settings["attention"]}
    if settings["attention"] == "cudnn":
        options["attn_implementation"] = "sdpa"
        torch.backends.cuda.enable_flash_sdp(enabled=False)
        torch.backends.cuda.enable_mem_efficient_sdp(enabled=False)
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
    return with_adapters(model, settings) if settings["adapter"] else model


def _quantized(stated: Settings) -> Settings:
    """The stated keys of a quantization, its dtypes as PyTorch has them."""
    return {key: getattr(torch, value) if key.endswith("dtype") else value for key, value in stated.items()}


def with_adapters(model: Any, settings: Settings) -> Any:
    """Return the model with low-rank adapters on those of the named layers that it has."""
    peft: Any = import_module("peft")
    stated, in_fp32 = settings["adapter"], settings["trained_dtype"] == "float32"
    there = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    named: Settings = {
        key: [n for n in stated[key] if n in there] for key in ("target_modules", "modules_to_save") if stated[key]
    }
    if stated["target_modules"] == "all-linear":
        named["target_modules"] = "all-linear"
    if settings["upcast"]:
        with_wide_norms(model)
    model.enable_input_require_grads()
    adapters = peft.LoraConfig(**{**stated, **named, "task_type": "CAUSAL_LM"})
    return peft.get_peft_model(model, adapters, autocast_adapter_dtype=in_fp32)


def with_wide_norms(model: Any) -> None:
    """Cast norms and other vectors to fp32, and with them what passes between products."""
    for weight in model.parameters():
        if weight.ndim == 1 and weight.is_floating_point():
            weight.data = weight.data.float()


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
        model=model, model_parameters=trained, training_data=data, collate_fn=padded, config=config, **own
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
    loader = DataLoader(data, batch_size=settings["micro_batch"], collate_fn=padded)
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
        transformers.Trainer(model=model_of(), args=arguments, train_dataset=data, data_collator=padded).train()


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
    parser.add_argument("--lengths", help="array of the lengths of its samples (.npy)")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--deepspeed_config", help="as deepspeed's launcher passes it on")
    parser.add_argument("--local_rank", type=int, help="as deepspeed's launcher passes it on")
    asked = parser.parse_args()
    settings = json.loads(Path(asked.settings).read_text())
    if settings["tf32"]:
        torch.set_float32_matmul_precision("high")
    data = Tokens(settings, asked.data, asked.lengths)
    TRAINERS[settings["trainer"]](
        settings, lambda: build_model(settings, asked.weights), data, asked.steps or settings["steps"]
    )


if __name__ == "__main__":
    main()
