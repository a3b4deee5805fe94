"""The words a plan's quantization may list, and what they stand for."""

from collections.abc import Mapping

WEIGHT_FORMATS: Mapping[str, str] = {
    "fp8": "fp8",
    "fp8-block": "fp8-block",
    "w8a8": "w8a8",
    "w8a16": "w8a16",
    "int8": "w8a16",
    "w4a16": "w4a16",
    "int4": "w4a16",
    "nf4": "nf4",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
    "q4_0": "q4_0",
    "q4_k_m": "q4_k_m",
}
"""Format of the weights, as matmul kernels are called, by word."""

EXPERTS_ONLY = frozenset({"mxfp4"})
"""Formats that checkpoints use for experts alone: gpt-oss keeps attention and head in 16 bits."""

CACHE_BYTES: Mapping[str, float] = {"kv-fp8": 1.0, "kv-int8": 1.0}
"""Bytes per cached key or value element by word."""

ROUTER_DTYPES: Mapping[str, str] = {"router-tf32": "tf32"}
"""In what a router that is kept in fp32 is multiplied, by word; left out, in fp32 (PyTorch's "highest" precision)."""

QUANTIZATIONS = (*WEIGHT_FORMATS, *CACHE_BYTES, *ROUTER_DTYPES)
"""Every word."""
