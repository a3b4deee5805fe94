"""The names that readers see of what may bind: levels, and other values of a study that are keys."""

LEVELS = {"compute": "compute", "dram": "DRAM", "l2": "L2", "network": "network", "host": "host"}
"""The levels of a bound, in the order in which they are stacked and named."""
_WRITTEN = {
    "ai": "AI",
    "dram": "DRAM",
    "dtype": "data type",
    "flops": "FLOPs",
    "gb": "GB",
    "gib": "GiB",
    "gpu": "GPU",
    "gpus": "GPUs",
    "hbm": "HBM",
    "w": "W",
    "j": "J",
    "hfu": "HFU",
    "itl": "ITL",
    "kv": "KV",
    "l1": "L1",
    "l2": "L2",
    "llm": "LLM",
    "mfu": "MFU",
    "moe": "MoE",
    "nvlink": "NVLink",
    "pcie": "PCIe",
    "sram": "SRAM",
    "tb": "TB",
    "tdp": "TDP",
    "tpot": "TPOT",
    "ttft": "TTFT",
    "usd": "USD",
    "zero": "ZeRO",
}
"""Words of keys that are not written in small letters."""


def in_words(key: str) -> str:
    """Return a key, or a part of one, as words."""
    return " ".join(_WRITTEN.get(word, word) for word in key.replace(".", " ").split("_")).strip()
