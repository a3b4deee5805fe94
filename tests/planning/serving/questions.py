"""A small question of plans that serve a load."""

LOAD = {
    "task": "serve",
    "requests": {"count": 400, "prompt_tokens": 512, "output_tokens": 32},
    "slo": {"ttft": "500 ms", "tpot": "30 ms"},
}
PLAN = {"framework": "vllm", "quantization": "none"}
QUESTION = {"model": "llama-3.1-8b", "cluster": "2x h100-sxm-80gb", "workload": LOAD, "plan": PLAN}
SMALL = {
    **QUESTION,
    "cluster": "1x h100-sxm-80gb",
    "plan": {**PLAN, "tensor_parallel": 1, "max_batched_tokens": 2048, "chunked_prefill": True},
}
"""The same of a single layout: for what a search says beside which layout is the best."""
RATE = {"workload.arrival": {"process": "poisson", "rate": 20}}
RENT = {"objective": "cost", "top": 2, "overrides": {"workload.arrival": {"process": "poisson", "rate": 180}}}
