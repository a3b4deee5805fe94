"""Hugging Face models with a scenario's shapes, weights, quantization and adapters."""
