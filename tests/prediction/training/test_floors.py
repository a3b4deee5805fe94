"""No operator of a training step is faster than its arithmetic at the peak and its bytes through the memory."""

from dataclasses import replace

import numpy as np
import pytest
from training_scenarios import training

from sightline.prediction.training.constants import believed_constants
from sightline.prediction.training.step_profile import assemble
from sightline.program import Collective, Elementwise


@pytest.mark.parametrize("device", ["a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb", "rtx-4090"])
@pytest.mark.parametrize("sequence", [512, 8192])
def test_constants_of_frameworks_change_nothing_below_the_floor(device, sequence):
    scenario = training(model="llama-2-7b", cluster=f"1x {device}", sequence_length=sequence, plan={"micro_batch": 1})
    faster = {"matmul_slowdown": 0.01, "attention_slowdown": 0.01, "unsharded_head_slowdown": 0.01}
    priced = assemble(scenario, replace(believed_constants(scenario), **faster))[0]
    bandwidth = scenario.cluster.device.memory_bandwidth
    for block in priced.program.blocks:
        for op in block.operators:
            if not isinstance(op, Collective | Elementwise):
                price = priced.prices[id(op)]
                assert price.time_s >= max(price.compute_s, np.multiply(op.bytes, 0.999) / bandwidth), op.name
