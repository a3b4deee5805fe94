"""Plans of training and generation that tests of comparisons start from."""

TRAINING = {
    "name": "tiny",
    "model": "llama-2-7b",
    "cluster": "8x a800-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 350, "global_batch": 16},
    "plan": {"framework": "deepspeed", "zero_stage": 2, "micro_batch": 2},
}
GENERATION = {
    "model": "llama-2-7b",
    "cluster": "1x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 4, "prompt_tokens": 128, "output_tokens": 32},
    "plan": {"framework": "vllm"},
}
