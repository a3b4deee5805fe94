"""Answers of every kind that has charts, the quickest of their kind."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import plan_answers
import study_answers

import sightline as sl
from sightline.charts.index import Replay
from sightline.loading import scenario_from_mapping

GENERATION = {
    "name": "Llama-2-7B on 2 x H100",
    "model": "llama-2-7b",
    "cluster": "2x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 8, "prompt_tokens": 512, "output_tokens": 64},
    "plan": {"framework": "vllm", "tensor_parallel": 2},
}
LOAD = {
    "name": "Llama-3.1-8B, chats",
    "model": "llama-3.1-8b",
    "cluster": "1x h100-sxm-80gb",
    "workload": {
        "task": "serve",
        "requests": {"count": 60, "prompt_tokens": 512, "output_tokens": 64},
        "arrival": {"process": "poisson", "rate": 8},
        "slo": {"ttft": "100 ms", "tpot": "12 ms"},
    },
    "plan": {"framework": "vllm"},
}


def training(devices: int = 32, **plan: Any) -> Any:
    """Return a training step of Llama-2-7B in four pipeline stages."""
    return scenario_from_mapping(
        {
            "model": "llama-2-7b",
            "cluster": f"{devices}x a100-sxm-80gb",
            "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 128},
            "plan": {"framework": "megatron", "pipeline_parallel": 4, "tensor_parallel": 2, "micro_batch": 1} | plan,
        }
    )


@cache
def step() -> Any:
    """A training step in a pipeline."""
    return sl.predict(training())


@cache
def generation() -> Any:
    """A batch of prompts."""
    return sl.predict(sl.load(GENERATION))


@cache
def batches() -> Any:
    """Batches of several sizes."""
    return [sl.predict(one) for one in sl.load(GENERATION, (), {"workload.batch": [1, 4, 16, 64]})]


@cache
def devices() -> Any:
    """Steps on more and more devices."""
    return [sl.predict(training(count, tensor_parallel=t)) for t in (1, 2) for count in (8, 16, 32, 64)]


@cache
def sweep() -> Any:
    """Steps of two degrees by two."""
    return [sl.predict(training(tensor_parallel=t, micro_batch=m)) for t in (1, 2) for m in (1, 2)]


@cache
def load() -> Any:
    """A served load."""
    return sl.simulate(sl.load(LOAD))


@cache
def rates() -> Any:
    """A load at several rates."""
    return [sl.simulate(one) for one in sl.load(LOAD, (), {"workload.arrival.rate": [2, 8, 20, 60]})]


@cache
def replay() -> Any:
    """A load beside another one of the same requests."""
    return Replay(measured=load().outcome, profile=load())


@cache
def sensitivity() -> Any:
    """What a batch of prompts depends on."""
    return sl.sensitivity(sl.load(GENERATION))


@cache
def comparison() -> Any:
    """Two steps."""
    return sl.compare(step(), sl.predict(training(micro_batch=2)))


@cache
def validation() -> Any:
    """Published steps."""
    return sl.validate("korthikanti-2022-table5")


@cache
def matmuls() -> Any:
    """A layer on two devices."""
    return [("Llama-2-7B", sl.roofline(sl.load(GENERATION), name)) for name in ("a100-sxm-80gb", "h100-sxm-80gb")]


@cache
def plans() -> Any:
    """A search of training plans."""
    return plan_answers.generating()


@cache
def study() -> Any:
    """A study with a map."""
    return study_answers.grid()


ANSWERS: Mapping[str, Callable[[], Any]] = {
    one.__name__: one
    for one in (
        *(step, generation, batches, devices, sweep, load, rates, replay),
        *(sensitivity, comparison, validation, matmuls, plans, study),
    )
}
"""By name."""
