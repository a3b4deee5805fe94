"""The best plan with each value that was allowed beside the mesh, and what it loses."""

import pytest

from sightline.answers import plan_sentences
from sightline.planning.plan_answer import plans_to_dict
from sightline.planning.search import plan

TUNED = {
    "model": "llama-3.1-8b",
    "cluster": {"any": ["1x rtx-4090", "2x rtx-4090"]},
    "workload": {"task": "finetune", "sequence_length": 2048, "global_batch": 16, "total_tokens": 1e7},
    "plan": {"framework": "transformers", "adapter": {"any": ["none", "lora", "qlora"]}, "attention": "flash"},
}
TRAINED = {
    "model": "gpt-1.3b",
    "cluster": {"any": ["8x h100-sxm-80gb", "8x a100-sxm-80gb", "16x a100-sxm-80gb"]},
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 512, "total_tokens": 1e11},
    "plan": {"framework": {"any": ["megatron", "deepspeed"]}, "micro_batch": 2, "offload": "none", "zero_stage": 1},
}


@pytest.mark.parametrize(
    ("question", "objective"),
    [
        (TUNED, "time"),
        (TRAINED, "cost"),
        pytest.param(TUNED, "cost", marks=pytest.mark.slow),
        pytest.param(TRAINED, "time", marks=pytest.mark.slow),
    ],
)
def test_each_is_the_best_of_a_search_of_that_value_alone(question, objective):
    answer = plan(question, objective=objective, launchable=True)
    first = answer.plans[0]
    assert answer.alternatives
    for one in answer.alternatives:
        alone = plan(question, objective=objective, launchable=True, overrides=one.set)
        if one.loss is None:
            assert not alone.plans
            assert one.sentence == "no plan fits and meets the limits"
        else:
            least = min(plan.value for plan in alone.plans)
            assert one.loss == pytest.approx(least / min(first.value, answer.plans[1].value) - 1, abs=2e-3)
    losses = [one.loss for one in answer.alternatives if one.loss is not None]
    assert losses == sorted(losses)


def test_they_are_in_every_form():
    answer = plan(TUNED, launchable=True)
    keys = {key for one in answer.alternatives for key in one.set}
    assert keys == {"cluster", "plan.adapter"}
    assert plans_to_dict(answer)["neighbours"][0]["set"] == answer.alternatives[0].set
    assert ("adapter none", "-", "no plan fits and meets the limits") in plan_sentences.alternatives(answer)


def test_one_value_and_fronts_have_none():
    assert not plan(TUNED | {"cluster": "1x rtx-4090", "plan": {"framework": "transformers"}}).alternatives
    assert not plan(TRAINED, pareto=("time", "cost")).alternatives
    assert not plan(TRAINED, objective="batch").alternatives


def test_rent_is_that_of_all_devices():
    first = plan(TRAINED, top=1).plans[0]
    cluster = first.profile.scenario.cluster
    assert first.figures["usd_per_hour"] == pytest.approx(cluster.devices * cluster.usd_per_hour)


def test_gains_and_losses_are_told_apart():
    question = TRAINED | {"cluster": "8x h100-sxm-80gb", "plan": {"framework": "megatron", "tensor_parallel": 2}}
    answer = plan(question, launchable=True)
    gains, losses = plan_sentences.gains(answer), plan_sentences.neighbours(answer)
    assert all(figure.startswith("-") and figure != "-" for _, figure, _ in gains)
    assert not any(figure.startswith("-") and figure != "-" for _, figure, _ in losses)
    assert all(reason for *_, reason in gains)
