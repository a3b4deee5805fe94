"""No step is faster than the bound by which a search leaves plans out."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import trainings

from sightline.prediction.training.priced import least_step_s, micro_batch_alone_s, price
from sightline.prediction.training.step_profile import assemble
from sightline.scenario.rules import breaks_no_rule


@settings(max_examples=40, deadline=None)
@given(trainings(), st.sampled_from(["1f1b", "gpipe", "zero-bubble", "dualpipe"]))
def test_no_step_is_faster_than_the_bound(scenario, schedule):
    other = replace(scenario, plan=replace(scenario.plan, schedule=schedule, virtual_stages=1))
    for one in (scenario, other):
        if breaks_no_rule(one):
            bound = least_step_s(one, micro_batch_alone_s(price(one)))
            assert float(bound) <= float(assemble(one)[1].step_time_s) * (1 + 1e-9)
