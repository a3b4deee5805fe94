"""Latencies against published ones, and what bounds matrix products."""

import pytest

from sightline.reproduction.arxiv_2407_14645.inference import b2, b7, b8, b9, latencies, published
from sightline.reproduction.asking import Ask


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


def test_every_published_latency_is_listed(ask):
    listed = latencies(ask).answer
    assert len(listed) == len(published())
    assert {row["model"] for row in listed.rows} == {"llama-2-7b", "llama-2-13b", "llama-2-70b"}
    assert {row["device"] for row in listed.rows} == {"a100-sxm-80gb", "h100-sxm-80gb"}


def test_a_model_that_would_be_faster_than_a_smaller_one_is_not_judged(ours, ask):
    rows = list(latencies(ask).answer.rows)
    settings = ("device", "devices", "batch", "prompt_tokens", "output_tokens")
    seven = {tuple(row[key] for key in settings): row["measured_s"] for row in rows if row["model"] == "llama-2-7b"}
    for row in rows:
        slower = seven.get(tuple(row[key] for key in settings), 0.0) > row["measured_s"]
        assert bool(row["left_out"]) == (slower and row["model"] == "llama-2-13b")
    counted = [abs(row["error"]) for row in rows if not row["left_out"]]
    assert ours(b2, ask)[0] == pytest.approx(sum(counted) / len(counted))


def test_what_bounds_matrix_products_is_named_by_device_and_shape(ours, ask):
    (interpretation,) = b7(ask)
    assert ours(b7, ask) == [1.0]
    assert "a100-sxm-80gb: prefill qkv" in interpretation.sentence
    assert ours(b8, ask)[0] > 1.0


def test_the_knee_of_memory_has_a_level(ask):
    (interpretation,) = b9(ask)
    assert "where L2 binds" in interpretation.sentence
