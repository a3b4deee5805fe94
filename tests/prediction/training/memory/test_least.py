"""What a micro-batch takes at least is never more than what a plan takes."""

from hypothesis import given, settings
from strategies import trainings

from sightline.prediction.training.memory import least_bytes
from sightline.prediction.training.step_profile import profile_of


@settings(max_examples=30, deadline=None)
@given(trainings(micro_batch=2))
def test_no_plan_takes_less_than_its_micro_batch(scenario):
    assert float(least_bytes(scenario)) <= float(profile_of(scenario).memory_bytes["total"])
