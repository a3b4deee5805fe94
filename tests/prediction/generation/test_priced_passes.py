"""Passes of late are not written and priced again; what a generation takes is what it takes alone."""

from dataclasses import replace
from typing import Any

import pytest
from generation_scenarios import generation

import sightline
from sightline.content import forget
from sightline.prediction.generation.phases import price_generation
from sightline.scenario import GenerationScenario

FIRST = generation(model="llama-2-7b", cluster="8x h100-sxm-80gb", plan={"tensor_parallel": 2}, batch=8)


def changed(part: str, **fields: Any) -> GenerationScenario:
    return replace(FIRST, **{part: replace(getattr(FIRST, part), **fields)})


OTHERS = [
    changed("workload", output_tokens=256),
    changed("workload", batch=16),
    changed("workload", prompt_tokens=1024),
    changed("plan", tensor_parallel=4),
    changed("plan", quantization=("fp8",)),
    changed("plan", memory_fraction=0.5),
    changed("cluster", device=replace(FIRST.cluster.device, memory_bandwidth=5e12)),
    changed("cluster", intra_node=replace(FIRST.cluster.intra_node, bandwidth=1e11)),
    changed("cluster", power_cap_w=400.0),
]


@pytest.mark.parametrize("other", OTHERS, ids=range(len(OTHERS)))
def test_a_generation_after_another_is_predicted_as_if_alone(other):
    forget()
    sightline.predict(FIRST)
    after = sightline.predict(other)
    forget()
    alone = sightline.predict(other)
    assert (after.ttft_s, after.tpot_s) == (alone.ttft_s, alone.tpot_s)
    assert dict(after.phases) == dict(alone.phases)
    assert dict(after.memory_bytes) == dict(alone.memory_bytes)


def test_a_pass_whose_batch_is_the_same_is_not_priced_again():
    forget()
    first, longer = price_generation(FIRST), price_generation(changed("workload", output_tokens=256))
    assert longer.prefill is first.prefill
    assert longer.decode is not first.decode
    assert price_generation(changed("plan", memory_fraction=0.5)).decode is first.decode
