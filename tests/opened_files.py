"""Files that people open on the page, and the scenario of a server."""

SERVED = {
    "model": "llama-3.1-8b",
    "cluster": "1x h100-sxm-80gb",
    "workload.task": "serve",
    "workload.requests.count": "64",
    "workload.requests.prompt_tokens": "1024",
    "workload.requests.output_tokens": "128",
    "workload.arrival.rate": "8",
    "workload.slo.ttft": "1 s",
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
}
BENCH = {
    "tokenizer_id": "meta-llama/Llama-3.1-8B",
    "num_prompts": 100,
    "request_rate": 4.0,
    "completed": 100,
    "request_throughput": 4.0,
    "output_throughput": 512.0,
    "mean_ttft_ms": 60.0,
    "mean_tpot_ms": 10.0,
}
REQUESTS = "arrival_s,prompt_tokens,output_tokens\n0,100,20\n1,200,30\n2.5,150,10\n"
