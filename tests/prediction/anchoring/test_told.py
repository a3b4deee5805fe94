"""What anchors taught, in words."""

import pytest
from training_scenarios import training

from sightline.prediction.anchoring.corrections import Lesson, sentence_of, sentence_of_anchor
from sightline.prediction.anchoring.timed import Timed


@pytest.mark.parametrize(
    ("constant", "assumed", "value", "sentence"),
    [
        ("collective_slowdown", 1.0, 1.6, "your network delivers 62 % of what was assumed"),
        (
            "vector_unit_bandwidth",
            2e12,
            1.74e12,
            "kernels of few rows read 87 % of the bytes per second that was assumed",
        ),
        ("memory_fraction", 0.8, 0.75, "element-wise kernels reach 75 % of the memory bandwidth, not 80 %"),
        ("step_s", 0.001, 0.0019, "the host takes 1.90 x as long per step"),
    ],
)
def test_a_constant_that_moved_is_told_in_plain_words(constant, assumed, value, sentence):
    lesson = Lesson(constant=constant, assumed=assumed, value=value, interval=(value, value), surprise=2.0)
    assert sentence_of(lesson) == sentence


def test_a_measurement_is_told_against_what_was_expected():
    timed = Timed(scenario=training(), seconds=0.52, quantity="step_time_s", name="own")
    assert sentence_of_anchor([(timed, 0.5)], []) == (
        "step_time_s measured 0.52 s, predicted without it 0.5 s (+4 %); "
        "no single constant moved by more than its noise"
    )
