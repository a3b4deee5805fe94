"""A command that starts Megatron-LM's ``pretrain_gpt.py``, read back as a scenario."""

from typing import Any, Final

from sightline.launching.launch import Reading, refuse
from sightline.launching.options import Options, not_read, without_none
from sightline.launching.source import Source
from sightline.launching.training.megatron.models import model_of
from sightline.launching.training.megatron.stated_plans import plan_of
from sightline.launching.training.missing import missing_of
from sightline.launching.training.ranks import devices_of, launcher_and_program

_MARKS: Final = ("tensor-model-parallel-size", "micro-batch-size", "num-layers", "pipeline-model-parallel-size")
"""Arguments of which a command of Megatron-LM has several."""
_RUN: Final = (
    *("lr", "min-lr", "lr-decay-style", "lr-warmup-fraction", "lr-warmup-iters", "lr-warmup-samples", "lr-decay-iters"),
    *("lr-decay-samples", "weight-decay", "clip-grad", "adam-beta1", "adam-beta2", "adam-eps", "seed", "data-path"),
    *("init-method-std", "rotary-percent", "split", "save", "load", "save-interval"),
    *("log-interval", "log-throughput", "eval-iters", "eval-interval", "tensorboard-dir", "tokenizer-type"),
    *("tokenizer-model", "vocab-file", "merge-file", "data-cache-path", "wandb-project", "wandb-exp-name"),
    *("use-mcore-models", "mock-data", "no-load-optim", "no-load-rng", "transformer-impl", "finetune"),
    *("distributed-timeout-minutes", "num-workers", "use-legacy-models", "distributed-backend"),
)
"""Arguments that do not change how long a step takes or what it holds."""


def claims(found: Source) -> bool:
    """Whether it is a command of Megatron-LM."""
    names = Options(found.words).names()
    scripts = any("pretrain_" in word and word.endswith(".py") for word in found.words)
    return found.kind == "command" and (scripts or sum(mark in names for mark in _MARKS) > 1)


def read(found: Source) -> Reading:
    """Return what a command says as a scenario."""
    launcher, options = launcher_and_program(found.words)
    vocabulary = _vocabulary(options)
    model = model_of(options, vocabulary)
    plan = plan_of(options)
    devices = devices_of(launcher)
    scenario = {"model": model, "workload": _workload(options), "plan": plan}
    degrees = [plan[f"{axis}_parallel"] for axis in ("tensor", "pipeline", "context")]
    replicas = None if devices is None else devices // (degrees[0] * degrees[1] * degrees[2])
    if replicas and (groups := options.number("num-distributed-optimizer-instances", 1) or 1) > 1:
        plan["data_parallel_shard"] = replicas // groups
    refuse([*launcher.problems, *options.problems])
    unread = [f"--{name}" for name in options.unread() if name not in (*_RUN, *launcher.read_names())]
    return Reading(
        framework="megatron",
        scenario=without_none(scenario),
        missing=_missing(scenario, devices, vocabulary),
        without_counterpart=[
            *not_read(unread, [f"--{name}" for name in options.read_names()], "Megatron-LM's"),
            *launcher.unknown.values(),
            *options.unknown.values(),
        ],
    )


def _vocabulary(options: Options) -> int | None:
    """The vocabulary where the arguments state it: a tokenizer that is a file does not say."""
    kind = options.text("tokenizer-type", "")
    return (
        options.number("vocab-size")
        or options.number("padded-vocab-size")
        or (_GPT2 if kind == "GPT2BPETokenizer" else None)
    )


_GPT2: Final = 50257
"""Tokens of GPT-2's vocabulary."""


def _workload(options: Options) -> dict[str, Any]:
    length, batch = options.number("seq-length"), options.number("global-batch-size")
    steps, samples = (options.number(f"train-{name}", least=0) for name in ("iters", "samples"))
    if steps and batch:
        samples = steps * batch
    tokens = samples * length if samples and length else None
    task = "finetune" if options.has("finetune") else "pretrain"
    return without_none({"task": task, "sequence_length": length, "global_batch": batch, "total_tokens": tokens})


def _missing(scenario: dict[str, Any], devices: int | None, vocabulary: int | None) -> dict[str, str]:
    """Keys that the command leaves open, and what belongs there."""
    missing = missing_of(scenario, devices, model="the command does not state it")
    if scenario["model"] is not None and vocabulary is None:
        missing["model.vocab_size"] = "tokens of the vocabulary, which the tokenizer's file says"
    return missing
