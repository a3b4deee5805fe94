"""Traces of PyTorch's profiler (Kineto JSON): read into columns, and every instant of a step given one reason."""
