"""What anchors taught, in words."""

import pytest
from training_scenarios import training

from sightline.prediction.anchoring.anchored import Lesson, sentence_of, sentence_of_anchor
from sightline.prediction.anchoring.timed import Timed


@pytest.mark.parametrize(
    ("constant", "assumed", "value", "sentence"),
    [
        ("collective_slowdown", 1.0, 1.6, "62 %"),
        (
            "vector_unit_bandwidth",
            2e12,
            1.74e12,
            "87 %",
        ),
        ("memory_fraction", 0.8, 0.75, "75 %"),
        ("step_s", 0.001, 0.0019, "1.90 x"),
    ],
)
def test_a_constant_that_moved_is_told_in_plain_words(constant, assumed, value, sentence):
    lesson = Lesson(constant=constant, assumed=assumed, value=value, interval=(value, value), surprise=2.0)
    assert sentence in sentence_of(lesson)


def test_a_measurement_is_told_against_what_was_expected():
    timed = Timed(scenario=training(), seconds=0.52, quantity="step_time_s", name="own")
    said = sentence_of_anchor([(timed, 0.5)], [])
    assert said.startswith("step_time_s: measured 0.52 s, predicted without the anchor 0.5 s (+4 %)")
