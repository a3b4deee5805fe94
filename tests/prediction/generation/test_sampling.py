"""What drawing tokens costs: sorts and draws over the vocabulary, penalties, and nothing where the most likely is taken."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline import load, predict, simulate
from sightline.errors import InputError
from sightline.loading import generation_from_mapping
from sightline.loading.written import to_mapping
from sightline.prediction.generation.replica import worker_of
from sightline.program import Batch, decoding

TOP_P = {"temperature": 0.7, "top_p": 0.9}


def scenario(sampling=None, *, cluster="1x h100-sxm-80gb", framework="vllm", version=None):
    return generation_from_mapping(
        {
            "model": "qwen3-8b",
            "cluster": cluster,
            "workload": {
                "task": "generate",
                "batch": 8,
                "prompt_tokens": 128,
                "output_tokens": 32,
                "sampling": sampling,
            },
            "plan": {"framework": framework, "framework_version": version},
        }
    )


def seconds(sampling, sequences=256.0, vocabulary=None, **question):
    """Seconds of what drawing adds to a step, each operator alone."""
    asked = scenario(sampling, **question)
    if vocabulary is not None:
        asked = replace(asked, model=replace(asked.model, vocab_size=vocabulary))
    (priced,) = worker_of(asked).priced([Batch.of(decoding(sequences, 512.0))])
    drawing = ("temperature", "penalties", "drawing")
    return sum(priced.prices[id(op)].time_s for op in priced.program.head.operators if op.part in drawing)


def test_the_most_likely_token_costs_least():
    greedy = predict(scenario()).tpot_s
    assert (
        predict(scenario({"temperature": 0, "top_p": 0.9})).tpot_s == predict(scenario({"top_k": 1})).tpot_s == greedy
    )
    assert greedy < predict(scenario({})).tpot_s < predict(scenario(TOP_P, version="0.11")).tpot_s


def test_a_sort_takes_milliseconds_and_flashinfer_a_tenth():
    assert 5e-3 < seconds(TOP_P, version="0.11") < 25e-3
    assert seconds(TOP_P) < seconds(TOP_P, version="0.11") / 5
    assert seconds(TOP_P, framework="sglang") < 1e-3
    # FlashInfer has no kernels for other devices.
    assert seconds(TOP_P, cluster="1x mi300x") == seconds(TOP_P, cluster="1x mi300x", version="0.11")


def test_penalties_cost_also_without_drawing():
    assert seconds({"temperature": 0, "penalties": True}) > seconds({"temperature": 0}) == 0.0
    assert seconds({**TOP_P, "penalties": True}) > seconds(TOP_P)


@given(st.integers(1, 512), st.integers(16_000, 260_000), st.sampled_from([{}, TOP_P, {"top_k": 50}]))
def test_more_sequences_and_words_take_longer(sequences, vocabulary, sampling):
    least = seconds(sampling, 1.0 * sequences, vocabulary)
    assert least < seconds(sampling, 2.0 * sequences, vocabulary)
    assert least < seconds(sampling, 1.0 * sequences, 2 * vocabulary)


def test_loads_draw_too():
    work = {"task": "serve", "requests": {"count": 40, "prompt_tokens": 64, "output_tokens": 32}}
    plan = {"framework": "vllm", "framework_version": "0.11"}
    asked = {"model": "qwen3-8b", "cluster": "1x h100-sxm-80gb", "plan": plan}
    greedy, drawn = (load({**asked, "workload": {**work, **more}}) for more in ({}, {"sampling": TOP_P}))
    assert simulate(drawn).tpot_s["mean"] > simulate(greedy).tpot_s["mean"]
    assert to_mapping(drawn)["workload"]["sampling"]["top_p"] == TOP_P["top_p"]


@pytest.mark.parametrize(
    "sampling", [{"temperature": -1}, {"top_p": 1.5}, {"top_k": -2}, {"seed": 1}, {"penalties": 2}]
)
def test_what_no_engine_takes_is_refused(sampling):
    (name,) = sampling
    with pytest.raises(InputError, match=rf"workload\.sampling\.{name}"):
        scenario(sampling)


def test_training_draws_nothing():
    with pytest.raises(InputError, match=r"workload\.sampling"):
        load({"model": "qwen3-8b", "cluster": "8x h100-sxm-80gb", "workload": {"task": "pretrain", "sampling": {}}})
