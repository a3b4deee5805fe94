"""How engines cut a batch for their pipeline stages."""

import numpy as np
import pytest

from sightline.frameworks import read_engine
from sightline.prediction.generation.phases import micro_batches
from sightline.scenario import GenerationPlan


def plan(framework: str, stages) -> GenerationPlan:
    return GenerationPlan(engine=read_engine(framework), pipeline_parallel=stages)


def test_a_batch_is_cut_for_every_stage_but_not_below_a_sequence():
    assert micro_batches(plan("vllm", 4), 16, 100) == 4
    assert micro_batches(plan("vllm", 4), 2, 100) == 2
    assert micro_batches(plan("lightllm", 4), 16, 100) == 1


@pytest.mark.parametrize(
    ("stages", "sequences", "tokens", "parts"),
    [
        (1, 256, 128, 1),  # no pipeline, nothing cut
        (3, 16, 1, 1),  # 3 stages do not divide 16, and a step has few tokens
        (3, 24, 1, 3),
        (3, 16, 128, 2),  # 2,048 tokens, halved once
        (3, 256, 128, 32),
        (2, 256, 128, 32),
        (3, 7, 512, 1),  # odd batches are never halved
    ],
)
def test_fastertransformer_halves_a_batch_down_to_1024_tokens(stages, sequences, tokens, parts):
    assert micro_batches(plan("fastertransformer", stages), sequences, tokens) == parts


def test_stages_and_batches_broadcast():
    stages, sequences = np.array([[1], [3]]), np.array([16, 256])
    found = micro_batches(plan("fastertransformer", stages), sequences, 128)
    assert found.tolist() == [[1, 1], [2, 32]]
