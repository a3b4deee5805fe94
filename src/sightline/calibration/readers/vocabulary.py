"""What tables call number formats, caches and collectives, and what we call them."""

NO_WINDOW = 1e9
"""Tokens of a sliding window that never ends."""

MATMULS = {
    "bfloat16": "16-bit",
    "float16": "16-bit",
    "bf16": "16-bit",
    "fp16": "16-bit",
    "fp8": "fp8",
    "fp8_block": "fp8-block",
    "sq": "w8a8",
    "int8": "w8a8",
    "int8_wo": "w8a16",
    "int4_wo": "w4a16",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
}
"""Number formats of products."""

CACHES = {
    "bfloat16": "16-bit cache",
    "float16": "16-bit cache",
    "bf16": "16-bit cache",
    "fp16": "16-bit cache",
    "fp8": "fp8 cache",
}
"""Elements of a cache, by which the kernels that read them are told apart."""

PROGRAMS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
    "broadcast": "broadcast",
}
"""Programs of nccl-tests, and the kinds of collectives that they time."""
COLLECTIVES = {**PROGRAMS, **{kind: kind for kind in PROGRAMS.values()}}
