"""A scenario as a command that starts ``pretrain_gpt.py`` of Megatron-LM on every device."""

from math import ceil
from typing import Final

from sightline.launching.launch import Launch, refuse
from sightline.launching.shell.writing import command_line
from sightline.launching.training.megatron.models import Arguments, model_arguments
from sightline.launching.training.megatron.plans import WRITTEN, plan_arguments
from sightline.launching.training.ranks import on_every_node, torchrun
from sightline.launching.training.rules import refusals
from sightline.launching.training.support import unwritten, whole, with_micro_batch
from sightline.prediction.schedules.closed_forms import stage_layers
from sightline.scenario import Scenario
from sightline.scenario.techniques import Recomputation

STEPS: Final = 50
"""Steps of a run whose tokens are not stated."""
MEGATRON: Final = "Megatron-LM's pretrain_gpt.py"
_WARM_UP: Final = 0.01
"""Share of the steps in which the learning rate rises."""
_OLD: Final = ("2019", "2022", "0.2", "0.5", "0.8")
"""Lines whose releases spell some arguments otherwise."""


def write(scenario: Scenario) -> Launch:
    """Return the launch of a scenario.

    Raises:
        InputError: Megatron-LM does not offer something of the plan or of the model; a sentence each.
    """
    refuse(refusals(scenario))
    asked = with_micro_batch(scenario)
    arguments = {
        **model_arguments(asked.model, asked.workload.sequence_length),
        **plan_arguments(asked),
        **_run(asked),
    }
    words = [*_environment(asked), *torchrun(asked.cluster, "${MEGATRON:-Megatron-LM}/pretrain_gpt.py")]
    return Launch(
        framework="megatron",
        command=command_line(words, arguments),
        without_counterpart=[*unwritten(asked.plan, WRITTEN, MEGATRON), *_supplied(asked)],
    )


def _environment(scenario: Scenario) -> list[str]:
    """Variables that Megatron-LM checks for."""
    plan = scenario.plan
    # Kernels of collectives start in the order of their calls, as tensor parallelism needs before Blackwell; sharding
    # by Megatron-FSDP needs the opposite.
    ordered = plan.zero_stage <= 1 and (plan.tensor_parallel > 1 or plan.context_parallel > 1)
    held = "activations" in plan.offload
    set_values = {"CUDA_DEVICE_MAX_CONNECTIONS=1": ordered, "NVTE_CPU_OFFLOAD_V1=1": held}
    return [name for name, is_set in set_values.items() if is_set]


def _run(scenario: Scenario) -> Arguments:
    """How long, on which tokens, and how weights are updated."""
    work = scenario.workload
    tokens = None if work.total_tokens is None else float(work.total_tokens)
    steps = STEPS if tokens is None else ceil(tokens / work.tokens_per_step)
    finetunes: Arguments = {"--finetune": True, "--load": "${CHECKPOINT:?}"} if work.task == "finetune" else {}
    return {
        **finetunes,
        "--train-iters": steps,
        "--lr": 1e-4,
        "--min-lr": 1e-5,
        "--lr-decay-style": "cosine",
        "--lr-warmup-fraction": _WARM_UP,
        "--tokenizer-type": "NullTokenizer",
        "--vocab-size": scenario.model.vocab_size,
        "--mock-data": True,
        "--log-interval": 1,
        "--log-throughput": True,
        "--eval-iters": 0,
    }


def _supplied(scenario: Scenario) -> list[str]:
    """What the user replaces or supplies."""
    work, line, kernel = scenario.workload, scenario.plan.framework.version, scenario.plan.attention_kernel
    told = {
        "MEGATRON is the folder of NVIDIA's Megatron-LM; these are the arguments of its releases since 2025": True,
        f"plan.framework_version is {line}: its releases spell some of these arguments otherwise": line in _OLD,
        "--mock-data and the NullTokenizer stand for your data and tokenizer: replace them by --data-path, "
        "--tokenizer-type and --tokenizer-model": True,
        "--lr and its schedule are examples": True,
        f"plan.attention_kernel is {kernel}: --attention-backend flash takes the release that is installed": (
            kernel in ("flash-2", "flash-3") and scenario.plan.attention != "eager"
        ),
        "model.rope_theta is not stated: Megatron-LM takes 10000 unless you add --rotary-base": (
            scenario.model.positions == "rotary" and scenario.model.rope_theta is None
        ),
        f"workload.total_tokens is not stated: the command trains {STEPS} steps": work.total_tokens is None,
        "CHECKPOINT is the folder of the weights in Megatron-LM's format": work.task == "finetune",
        "workload.lengths: pretrain_gpt.py packs every sample to --seq-length": work.lengths is not None,
    }
    told_too = [*_recomputed_whole(scenario), *on_every_node(scenario.cluster)]
    return [*(sentence for sentence, is_so in told.items() if is_so), *told_too]


def _recomputed_whole(scenario: Scenario) -> list[str]:
    """Where the plan recomputes more layers than a stage has, which Megatron-LM takes for all of them."""
    plan = scenario.plan
    asked = plan.recompute.layers if isinstance(plan.recompute, Recomputation) else None
    stages = whole(plan.pipeline_parallel) * whole(plan.virtual_stages)
    most = max(plan.stage_layers or stage_layers(scenario.model.layers, stages)) * whole(plan.virtual_stages)
    if asked is None or asked <= most:
        return []
    return [f"plan.recompute is of {asked} layers of a stage, and the longest stage has {most}: all are recomputed"]
