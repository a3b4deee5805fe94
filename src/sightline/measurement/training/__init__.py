"""Training with PyTorch, DeepSpeed and Megatron-core."""
