"""Linear layers and how their matmuls lie in memory."""

import pytest
from training_scenarios import training

from sightline.prediction import predict


def test_a_weight_gradient_sums_over_tokens_whose_number_needs_no_alignment() -> None:
    even, odd = (
        predict(training(model="llama-2-7b", sequence_length=s, global_batch=8, plan={"micro_batch": 8})).phases[
            "backward"
        ]
        for s in (1024, 1023)
    )
    assert odd == pytest.approx(even, rel=0.02)
