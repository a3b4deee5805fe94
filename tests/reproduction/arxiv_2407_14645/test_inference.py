"""Latencies against published ones, and what bounds matrix products."""

from types import SimpleNamespace

import pytest

from sightline.reproduction import arxiv_2407_14645
from sightline.reproduction.arxiv_2407_14645 import b2, b7, b8, b9, latencies, published
from sightline.reproduction.asking import Ask


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


def test_every_published_latency_is_listed(ask):
    listed = latencies(ask).answer
    assert len(listed) == len(published())
    assert {row["model"] for row in listed.rows} == {"llama-2-7b", "llama-2-13b", "llama-2-70b"}
    assert {row["device"] for row in listed.rows} == {"a100-sxm-80gb", "h100-sxm-80gb"}


def test_no_latency_of_the_faulty_series_is_judged(ours, monkeypatch):
    """All of 13B is left out, also what is slower than 7B; the table lists it and the sentence has the whole error."""
    cases = [
        arxiv_2407_14645.Published(
            scenario={
                "model": model,
                "cluster": "1x a100-sxm-80gb",
                "workload": {"batch": 1, "prompt_tokens": 128, "output_tokens": 20},
            },
            measured_s=seconds,
            source="docs",
        )
        for model, seconds in (("llama-2-7b", 1.0), ("llama-2-13b", 0.5), ("llama-2-13b", 2.0), ("llama-2-70b", 0.8))
    ]
    monkeypatch.setattr(arxiv_2407_14645, "published", lambda: cases)

    class Told:
        def profile(self, _):
            return SimpleNamespace(latency_s=1.0)

    rows = list(latencies(Told()).answer.rows)
    assert [bool(row["left_out"]) for row in rows] == [False, True, True, False]
    assert [row["error"] for row in rows] == pytest.approx([0.0, 1.0, -0.5, 0.25])
    assert ours(b2, Told()) == pytest.approx([0.125])
    (judged,) = b2(Told())
    assert "nothing judges 13B; over all published latencies the mean error is 43.8" in judged.sentence


def test_what_bounds_matrix_products_is_named_by_device_and_shape(ours, ask):
    (interpretation,) = b7(ask)
    assert ours(b7, ask) == [1.0]
    assert "a100-sxm-80gb: prefill qkv" in interpretation.sentence
    assert ours(b8, ask)[0] > 1.0


def test_the_knee_of_memory_has_a_level(ask):
    (interpretation,) = b9(ask)
    assert "where L2 binds" in interpretation.sentence
