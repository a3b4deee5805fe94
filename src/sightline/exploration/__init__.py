"""Hardware as a variable: studies over devices, clusters and technology, of one's own and built-in ones."""

from collections.abc import Mapping

BUILT_IN: Mapping[str, str] = {
    "a100-to-b200": "gain of a training step from A100 to B200, factor by factor",
    "technology-nodes": "training and inference time from 12 nm to 1 nm, by memory and network",
    "scaling": "strong and weak scaling of training, to 100,000 devices",
    "memory-footprint": "memory of a training step by recomputation",
    "dram": "latency of generation from GDDR6 to beyond HBM4",
    "bound-by": "bottleneck of each matmul of a model, by device and memory level",
    "budgets": "best model size and token count for a budget of money or time",
    "trends": "price-performance of accelerators over the years",
}
"""What each study asks, by its name; its module in `sightline.exploration.studies` has ``_`` for ``-``."""
