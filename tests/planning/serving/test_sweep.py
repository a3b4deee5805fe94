"""Layouts of a space: what is stated stays, what is left out is searched, and what was looked at is counted."""

from planning.serving.questions import QUESTION, SMALL

from sightline.planning.search import plan


def test_restricted_and_stated_fields_stay() -> None:
    asked = {"plan.tensor_parallel": {"any": [1, 2]}, "plan.pipeline_parallel": 1, "plan.max_sequences": 64}
    asked |= {"plan.max_batched_tokens": 2048}
    found = plan(QUESTION, top=4, overrides=asked)
    plans = [one.profile.scenario.plan for one in found.plans]
    assert {own.tensor_parallel for own in plans} == {1, 2}
    assert {(own.pipeline_parallel, own.max_sequences, own.quantization) for own in plans} == {(1, 64, ())}


def test_formats_are_searched_where_they_are_left_out() -> None:
    free = plan(
        {
            **SMALL,
            "cluster": "2x h100-sxm-80gb",
            "plan": {"framework": "vllm", "tensor_parallel": 2, "max_batched_tokens": 2048, "chunked_prefill": True},
        },
        top=3,
    )
    formats = {one.profile.scenario.plan.quantization for one in free.plans}
    assert len(formats) > 1
    assert "quantization" in free.free
    assert "not predicted" in free.assumptions["quantization"]
    loss = next(one.loss for one in free.neighbours if one.set.get("plan.quantization") == "none")
    assert loss > 0


def test_what_was_evaluated_either_fits_or_is_told_not_to(answer, answer_of_large) -> None:
    for one in (answer, answer_of_large):
        assert one.evaluated == one.feasible + one.rejected.get("memory", 0) + sum(
            count for name, count in one.rejected.items() if name.endswith("_s")
        )
