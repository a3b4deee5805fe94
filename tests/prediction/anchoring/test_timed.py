"""What of a measurement teaches about times."""

from typing import Any

import pytest

from sightline import load
from sightline.prediction.anchoring.timed import timed_of

GENERATION = {
    "model": "llama-2-7b",
    "cluster": "1x a100-sxm-80gb",
    "workload": {"task": "generate", "batch": 1, "prompt_tokens": 512, "output_tokens": 64},
}


@pytest.mark.parametrize(
    ("measured", "seconds"),
    [
        ({"ttft_s": {"mean": "80 ms", "p90": 0.2}}, {"ttft_s": 0.08}),
        ({"ttft_s": {"p50": 0.07, "p90": 0.2}, "tpot_s": "12 ms"}, {"ttft_s": 0.07, "tpot_s": 0.012}),
        ({"ttft_s": {"p99": 0.3}}, {}),
    ],
)
def test_of_several_times_of_requests_the_mean_teaches_else_the_median(measured: Any, seconds: Any) -> None:
    scenario = load(GENERATION | {"measured": measured})
    assert {one.quantity: one.seconds for one in timed_of(scenario, scenario.measured, "mine")} == seconds
