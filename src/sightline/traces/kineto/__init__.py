"""Files that PyTorch's profiler (Kineto) writes: found, unpacked, decoded, and laid out in columns."""
