"""Labels tell scenarios apart by what they state."""

from training_scenarios import training

from sightline.answers.labels import variant_labels


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
