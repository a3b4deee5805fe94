"""Labels tell scenarios apart by what they state."""

from training_scenarios import training

from sightline.answers.labels import phrases, variant_labels


def test_what_a_release_line_does_by_itself_is_no_difference() -> None:
    old, new, plain_loss = (
        training(model="gpt-125m", plan={"framework": "megatron", "micro_batch": 1, **plan})
        for plan in ({"framework_version": "0.10"}, {"framework_version": "0.12"}, {"fused_loss": False})
    )
    assert [label.rpartition("framework_version ")[2] for label in variant_labels([old, new])] == ["0.10", "0.12"]
    assert not any("fused_loss" in label for label in variant_labels([old, new]))
    assert "fused_loss no" in variant_labels([new, plain_loss])[1]


def test_values_are_as_they_were_typed_and_found_ones_have_six_digits() -> None:
    several = [training(total_tokens=tokens) for tokens in (2e12, 4742.975075968071)]
    assert [label.rpartition(" ")[2] for label in variant_labels(several)] == ["2e12", "4742.98"]


def test_choices_that_change_the_time_are_described() -> None:
    plan = {"framework": "megatron", "tensor_parallel": 2, "expert_parallel": 2, "micro_batch": 1}
    choices = {
        "expert_overlap": True,
        "expert_capacity": 1.5,
        "launch_blocking": True,
        "tensor_overlap": "none",
    }
    plain = set(phrases(training(model="mixtral-8x7b", cluster="8x h100-sxm-80gb", global_batch=8, plan=plan)))
    for name, value in choices.items():
        changed = training(model="mixtral-8x7b", cluster="8x h100-sxm-80gb", global_batch=8, plan={**plan, name: value})
        assert len(set(phrases(changed)) - plain) == 1, name
