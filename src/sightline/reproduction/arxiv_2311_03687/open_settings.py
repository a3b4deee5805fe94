"""What the study leaves open: each setting with its choices, the likeliest first."""

from collections.abc import Mapping
from typing import Any

from sightline.reproduction.arxiv_2311_03687.bursts import REPLICAS, SPLIT, TOKENS, Deployment
from sightline.reproduction.arxiv_2311_03687.settings import GPUS, RTX_3090, RTX_3090_NVLINK, RTX_4090
from sightline.reproduction.open_settings import Choice, OpenSetting

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


def as_described(*platforms: str) -> list[Choice[Parts]]:
    """Return what is taken of the platforms' servers where they are as the catalog has them."""
    return [SERVERS[platform].first for platform in platforms if platform in SERVERS]
