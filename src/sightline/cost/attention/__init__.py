"""Softmax attention: fused kernels over many queries, and decoding kernels over few."""
