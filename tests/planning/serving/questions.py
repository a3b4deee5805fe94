"""A small question of plans that serve a load."""

LOAD = {
    "task": "serve",
    "requests": {"count": 400, "prompt_tokens": 512, "output_tokens": 32},
    "slo": {"ttft": "500 ms", "tpot": "30 ms"},
}
PLAN = {"framework": "vllm", "quantization": "none"}
QUESTION = {"model": "llama-3.1-8b", "cluster": "2x h100-sxm-80gb", "workload": LOAD, "plan": PLAN}
RATE = {"workload.arrival": {"process": "poisson", "rate": 20}}
RENT = {"objective": "cost", "top": 2, "overrides": {"workload.arrival": {"process": "poisson", "rate": 180}}}
