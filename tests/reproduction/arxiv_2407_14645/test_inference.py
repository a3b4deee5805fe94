"""Latencies against published ones, and what bounds matrix products."""

from types import SimpleNamespace

import pytest

from sightline.reproduction.arxiv_2407_14645 import inference
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


def test_a_model_that_would_be_faster_than_a_smaller_one_is_not_judged(ours, monkeypatch):
    """13B is left out where 7B was slower under the same settings alone: not of another device, batch or source."""
    measured = [
        ("llama-2-7b", "1x a100-sxm-80gb", 1, "docs", 1.0),
        ("llama-2-13b", "1x a100-sxm-80gb", 1, "docs", 0.5),
        ("llama-2-13b", "1x a100-sxm-80gb", 2, "docs", 0.8),
        ("llama-2-13b", "1x h100-sxm-80gb", 1, "docs", 0.8),
        ("llama-2-13b", "1x a100-sxm-80gb", 1, "paper", 0.8),
        ("llama-2-70b", "1x a100-sxm-80gb", 1, "docs", 0.8),
    ]
    cases = [
        inference.Published(
            scenario={
                "model": model,
                "cluster": cluster,
                "workload": {"batch": batch, "prompt_tokens": 128, "output_tokens": 20},
            },
            measured_s=seconds,
            source=source,
        )
        for model, cluster, batch, source, seconds in measured
    ]
    monkeypatch.setattr(inference, "published", lambda: cases)

    class Told:
        def profile(self, _):
            return SimpleNamespace(latency_s=1.0)

    rows = list(latencies(Told()).answer.rows)
    assert [bool(row["left_out"]) for row in rows] == [False, True, False, False, False, False]
    assert [row["error"] for row in rows] == pytest.approx([0.0, 1.0, 0.25, 0.25, 0.25, 0.25])
    assert ours(b2, Told()) == pytest.approx([0.2, 2.0 / 6])


def test_what_bounds_matrix_products_is_named_by_device_and_shape(ours, ask):
    (interpretation,) = b7(ask)
    assert ours(b7, ask) == [1.0]
    assert "a100-sxm-80gb: prefill qkv" in interpretation.sentence
    assert ours(b8, ask)[0] > 1.0


def test_the_knee_of_memory_has_a_level(ask):
    (interpretation,) = b9(ask)
    assert "where L2 binds" in interpretation.sentence
