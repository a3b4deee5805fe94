"""The study's platforms, models and techniques as scenarios."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from sightline.exploration.study_answer import Column
from sightline.profile import Profile
from sightline.quantities import GIB
from sightline.reproduction.asking import Ask, Asked
from sightline.reproduction.outcomes import ChoiceBySetting, OpenSetting, taken
from sightline.simulation.load import Floats
from sightline.simulation.results.times import times_of

SEQUENCE = 350
"""Tokens of a sample: the mean of the Alpaca set."""

TECHNIQUES: Mapping[str, Mapping[str, Any]] = {
    "N": {},
    "Z2": {"zero_stage": 2},
    "Z3": {"zero_stage": 3},
    "O": {"offload": "optimizer"},
    "Q": {"quantization": "nf4"},
    "R": {"recompute": "full"},
    "F": {"attention": "flash"},
    "L": {"adapter": {"kind": "lora"}},
    "QL": {"adapter": {"kind": "qlora"}},
}
"""What each letter of the study changes in the plan; offload takes the parameters too where ZeRO-3 splits them."""

PRETRAINING = (
    *("N", "Z2", "Z3", "Z2+O", "Z3+O", "Q", "R", "F"),
    *("R+Z2", "R+Z2+O", "R+Z3", "R+Z3+O", "R+Q", "F+R", "F+Z2", "F+Z3", "F+R+Z2", "F+R+Z2+O", "F+R+Z3", "F+R+Z3+O"),
)
FINETUNING = (
    *("L", "L+F", "L+R", "L+Z2", "L+Z3", "L+Z2+O", "L+Z3+O", "L+F+R", "L+F+R+Z2", "L+F+R+Z3", "L+F+R+Z3+O"),
    *("QL", "QL+F", "QL+R", "QL+Z2", "QL+F+R", "QL+F+R+Z2"),
)
QUICK_ROWS = frozenset(
    {"N", "Z2", "Z3", "Z2+O", "Q", "R", "F", "F+R", "F+R+Z3", "L", "L+F", "L+Z2", "L+F+R", "QL", "QL+F", "QL+F+R"}
)
"""Rows that a quick run keeps: every switch alone, and some together."""


def plan_of(row: str) -> dict[str, Any]:
    """Return the plan settings of a row such as ``F+R+Z3+O``; attention is eager where F is not on."""
    letters = row.split("+")
    plan: dict[str, Any] = {"zero_stage": 0, "attention": "eager"}
    for letter in letters:
        plan |= TECHNIQUES[letter]
    if "O" in letters and "Z3" in letters:
        plan["offload"] = ["optimizer", "parameters"]
    return plan


def step(
    model: Any,
    cluster: Any,
    techniques: str,
    *,
    batch: int,
    devices: int,
    framework: str = "deepspeed",
    sequence_length: int = SEQUENCE,
    **plan: Any,
) -> Asked:
    """Return the scenario of a step of training or, where ``techniques`` name L or QL, of fine-tuning.

    Args:
        model: Of the catalog, or described.
        cluster: As a scenario has it.
        techniques: The study's letters, such as ``F+R+Z3+O``.
        batch: Samples per device; with Megatron-LM of the only replica, which all devices share.
        devices: In use.
        framework: Megatron-LM splits matrices over all devices.
        sequence_length: Tokens of a sample.
        plan: Further settings.
    """
    is_split = framework == "megatron"
    return {
        "model": model,
        "cluster": cluster,
        "workload": {
            "task": "finetune" if {"L", "QL"} & {*techniques.split("+")} else "pretrain",
            "sequence_length": sequence_length,
            "global_batch": batch * (1 if is_split else devices),
        },
        "plan": {
            **plan_of(techniques),
            "framework": framework,
            "dtype": "bf16",
            "micro_batch": batch,
            **({"tensor_parallel": devices} if is_split else {}),
            **plan,
        },
    }


A800, RTX_4090, RTX_3090, RTX_3090_NVLINK = PLATFORMS = tuple(
    f"study-2311.03687-{server}" for server in ("a800", "rtx-4090", "rtx-3090", "rtx-3090-nvlink")
)
NAMES: Mapping[str, str] = {
    A800: "A800",
    RTX_4090: "RTX 4090",
    RTX_3090: "RTX 3090",
    RTX_3090_NVLINK: "RTX 3090, NVLink",
}
CARDS = (RTX_4090, RTX_3090)
"""Platforms of 24 GB cards, each without NVLink."""
SEVEN, THIRTEEN, SEVENTY = "llama-2-7b", "llama-2-13b", "llama-2-70b"
MODELS: Mapping[str, str] = {SEVEN: "7B", THIRTEEN: "13B", SEVENTY: "70B"}
DATE = "2023-11"
"""Of the software: the month in which the study appeared."""
GPUS = 8
OUT_OF_MEMORY = "out of memory"


def trained(
    platform: str,
    techniques: str = "N",
    *,
    model: str = SEVEN,
    batch: int = 1,
    devices: int = GPUS,
    framework: str = "deepspeed",
    **plan: Any,
) -> Asked:
    """Return a scenario of training or, where ``techniques`` name L or QL, of fine-tuning.

    Args:
        platform: One of `PLATFORMS`.
        techniques: The study's letters, such as ``F+R+Z3+O``.
        model: Of the catalog.
        batch: Sequences of a device per step.
        devices: GPUs in use.
        framework: deepspeed or megatron.
        plan: Further settings.
    """
    cluster = {"same_as": platform, "devices": devices} if devices != GPUS else platform
    return step(
        model,
        cluster,
        techniques,
        batch=batch,
        devices=devices,
        framework=framework,
        framework_version=DATE,
        **plan,
    )


VLLM, LIGHTLLM, TGI = ENGINES = ("vllm", "lightllm", "tgi")
CALLED: Mapping[str, str] = {VLLM: "vLLM", LIGHTLLM: "LightLLM", TGI: "TGI"}
REQUESTS, FEW_REQUESTS = 1000, 100
TOKENS = 512
"""Of each prompt, and of each answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """How a platform's GPUs serve a model."""

    name: str
    gpus: Mapping[str, int]
    """Of a replica, over which tensor parallelism splits the model."""


REPLICAS = Deployment(
    name="replicas",
    gpus={SEVEN: 1, THIRTEEN: 2, SEVENTY: GPUS},
)
SPLIT = Deployment(
    name="one server",
    gpus=dict.fromkeys(MODELS, GPUS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What becomes of a burst; all is NaN where the model does not fit."""

    tokens_per_s: float
    """Of answers."""
    latency_s: float
    """Mean over the requests: the area above the distribution that the study draws."""
    duration_s: float
    latencies_s: Floats
    """Of each request."""


NOTHING = Burst(tokens_per_s=nan, latency_s=nan, duration_s=nan, latencies_s=np.array([nan]))


def served(
    platform: str, engine: str, model: str, deployment: Deployment, *, requests: int = REQUESTS, tokens: int = TOKENS
) -> Asked:
    """Return a scenario of a burst: all requests come at once, with prompts and answers of so many ``tokens``."""
    # TGI refuses requests while it holds 128; with that limit it would answer an eighth of the burst.
    limit = {"max_concurrent_requests": requests} if engine == TGI else {}
    return {
        "model": model,
        "cluster": platform,
        "workload": {
            "task": "serve",
            "requests": {"count": requests, "prompt_tokens": tokens, "output_tokens": tokens},
            "arrival": {"process": "all_at_once"},
        },
        "plan": {
            "framework": engine,
            "framework_version": DATE,
            "tensor_parallel": deployment.gpus[model],
            **limit,
        },
    }


def burst(ask: Ask, platform: str, engine: str, model: str, deployment: Deployment, *, tokens: int = TOKENS) -> Burst:
    """Return what becomes of the burst."""
    requests = FEW_REQUESTS if ask.small else REQUESTS
    found = ask.profile(served(platform, engine, model, deployment, requests=requests, tokens=tokens))
    if not found.fits or found.outcome is None:
        return NOTHING
    return Burst(
        tokens_per_s=float(found.output_tokens_per_s),
        latency_s=float(found.latency_s["mean"]),
        duration_s=float(found.duration_s),
        latencies_s=times_of(found.outcome)["latency_s"],
    )


Parts = Mapping[str, Any]
"""Parts of a server that take the place of the study's."""
AS_DESCRIBED: Parts = {}

PCIE_4_HOST: Parts = {"host": {"device_bandwidth": "25 GB/s"}}
FULL_RATE: Parts = {"intra_node": {"same_as": "pcie4", "shares": {2: 1, 4: 1, 8: 1}}}
"""Peer-to-peer access whose devices leave each other all of their lanes: the most that a server can give."""
LINKS: OpenSetting[Parts] = OpenSetting(
    name="links of the RTX 4090 server",
    choices={
        "host lanes of PCIe 3, as its Xeons have, no peer-to-peer access": AS_DESCRIBED,
        "host lanes of PCIe 4, as the study states, no peer-to-peer access": PCIE_4_HOST,
        "PCIe 4 at its full rate with peer-to-peer access, which no driver of 2023 gives RTX 4090": {
            **PCIE_4_HOST,
            **FULL_RATE,
        },
    },
)
"""The study states PCIe 4, its processors have lanes of PCIe 3."""
HOST_MEMORY: OpenSetting[Parts] = OpenSetting(
    name="host memory of the RTX 3090 server",
    choices={
        "all 16 memory channels filled (16 modules of 8 GB)": AS_DESCRIBED,
        "half of the memory channels filled (8 modules of 16 GB)": {"host": {"memory_bandwidth": "205 GB/s"}},
    },
)
"""Its 128 GB can be filled in two ways: everything that GPUs exchange passes through this memory."""
SERVERS: Mapping[str, OpenSetting[Parts]] = {RTX_4090: LINKS, RTX_3090: HOST_MEMORY, RTX_3090_NVLINK: HOST_MEMORY}

COMPARED_BATCH: OpenSetting[bool] = OpenSetting(
    name="batch where platforms are compared",
    choices={"batch 1 per GPU": False, "each at its largest batch": True},
)
"""Whether it is the largest that fits each."""
CARD: OpenSetting[str] = OpenSetting(
    name="RTX card that the A800 is compared with", choices={"the RTX 4090": RTX_4090, "the RTX 3090": RTX_3090}
)
EQUAL_BATCH: OpenSetting[int] = OpenSetting(
    name="equal batch of DeepSpeed and Megatron-LM",
    choices={"the same batch per GPU and of the only replica": 1, "the same global batch": GPUS},
)
"""Samples of Megatron-LM's only replica for each that DeepSpeed has on a GPU."""
ZERO: OpenSetting[str] = OpenSetting(
    name="ZeRO stage of DeepSpeed against Megatron-LM",
    choices={"DeepSpeed without ZeRO": "N", "DeepSpeed with ZeRO-2": "Z2"},
)
EXPOSED: OpenSetting[bool] = OpenSetting(
    name="unoverlapped communication",
    choices={"phases without unoverlapped communication": False, "the whole step on 8 GPUs": True},
)
"""Whether it is a part of the whole of which a phase is a share."""

TIMED_BATCH: OpenSetting[int] = OpenSetting(name="batch of timed modules", choices={"batch 2": 2, "batch 1": 1})
TIMED_PASS: OpenSetting[str] = OpenSetting(
    name="pass of timed element-wise modules", choices={"forward": "forward", "backward": "backward"}
)
FLASH_GAIN: OpenSetting[bool] = OpenSetting(
    name="gain from FlashAttention", choices={"speed-up": False, "saved share of time": True}
)

ADAPTERS: OpenSetting[Mapping[str, Any]] = OpenSetting(
    name="projections that have adapters",
    choices={
        "adapters on all projections, as in the paper of QLoRA": {},
        "adapters on queries and values, PEFT's default for Llama": {"targets": ["query", "value"]},
    },
)
FLASH_ROWS: OpenSetting[str] = OpenSetting(
    name="rows that FlashAttention's gain for LoRA is taken from",
    choices={"from L to L+F": "", "from L+Z2 to L+F+Z2": "+Z2"},
)
"""What both rows have besides; what is known of the source does not say from which rows it takes the gain."""
COMBINED: OpenSetting[tuple[str, Mapping[str, Any]]] = OpenSetting(
    name="server and offload of 70B with all techniques",
    choices={
        "RTX 3090, the optimizer offloaded: 138 GB of weights do not fit its host": (
            RTX_3090,
            {"offload": "optimizer"},
        ),
        "RTX 3090 with NVLink, the optimizer offloaded": (RTX_3090_NVLINK, {"offload": "optimizer"}),
        "RTX 4090, optimizer and parameters offloaded": (RTX_4090, {}),
    },
)
"""The weights are bf16: releases of 2023 have no QLoRA under ZeRO-3."""

DEPLOYMENT: OpenSetting[Deployment] = OpenSetting(
    name="deployment in serving",
    choices={
        "8 replicas of 7B, 4 of 13B, one of 70B: as many as 24 GB cards hold": REPLICAS,
        "one server of each model, over all 8 GPUs": SPLIT,
    },
)
REQUEST: OpenSetting[int] = OpenSetting(
    name="tokens of a request",
    choices={f"{tokens} tokens of prompt and {tokens} of answer": tokens for tokens in (TOKENS, TOKENS // 2)},
)


def as_described(*platforms: str) -> ChoiceBySetting:
    """Return what is taken of the platforms' servers where they are as the catalog has them."""
    return taken(*(SERVERS[platform].first for platform in platforms if platform in SERVERS))


PLATFORM = Column(label="platform")
MODEL = Column(label="model")
ROW = Column(label="techniques")
BATCH = Column(label="batch")
FITS = Column(label="fits", values={"no": OUT_OF_MEMORY})
THROUGHPUT = Column(label="throughput", unit="tokens/s")
MEMORY = Column(label="memory", unit="B")
TIME = Column(label="time", unit="s")


def rate(profile: Profile) -> float | None:
    """Return tokens per second; None where the plan does not fit."""
    return float(profile.tokens_per_s) if profile.fits else None


def rate_in_words(value: float | None) -> str:
    """Return a throughput as sentences have it."""
    return OUT_OF_MEMORY if value is None else f"{value:,.0f} tokens/s"


def memory_gib(profile: Profile) -> float:
    """Return the memory that a plan needs on a GPU."""
    return float(profile.memory_bytes["total"]) / GIB


def ratio(one: float | None, other: float | None) -> float | None:
    """Return one number over another; None where either is not to be had."""
    return None if one is None or other is None else one / other
