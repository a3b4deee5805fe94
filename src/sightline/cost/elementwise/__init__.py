"""Element-wise kernels, which the memory's bandwidth bounds."""
