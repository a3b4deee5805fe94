"""A scenario is answered by one scheduling policy, and another one is an entry of the table."""

from dataclasses import replace

import pytest
from generation_scenarios import generation

from sightline.prediction.generation import policies
from sightline.prediction.generation.engine_constants import load_inference
from sightline.prediction.generation.policies import latencies

CONSTANTS, _ = load_inference("unmeasured")
POOLS = {"prefill": {"tensor_parallel": 4}, "decode": {"tensor_parallel": 8}}


@pytest.mark.parametrize(
    ("continuous", "plan", "name"),
    [
        (False, {}, "static batch"),
        (True, {}, "steady loop"),
        (True, {"disaggregate": POOLS}, "disaggregated pools"),
        (False, {"disaggregate": POOLS}, "disaggregated pools"),
    ],
)
def test_each_scenario_has_its_policy(continuous, plan, name):
    cluster = "12x h100-sxm-80gb" if plan else "8x h100-sxm-80gb"
    scenario = generation(model="llama-2-70b", cluster=cluster, batch=16, continuous=continuous, plan=plan)
    assert policies.policy_of(scenario).name == name


def test_a_policy_of_one_s_own_takes_the_place_of_another(monkeypatch):
    *_, static = policies.POLICIES

    def twice_ahead(workers, prefill, decode, constants):
        return replace(static.course(workers, prefill, decode, constants), ahead=2.0)

    scenario = generation(model="llama-2-7b", cluster="1x h100-sxm-80gb", batch=16)
    plain = latencies(policies.price_workers(scenario), CONSTANTS)
    own = static._replace(name="my own", course=twice_ahead)
    monkeypatch.setattr(policies, "POLICIES", (own, *policies.POLICIES))
    found = latencies(policies.price_workers(scenario), CONSTANTS)
    assert found.ttft_s == pytest.approx(plain.ttft_s + 2.0 * plain.decode.pass_s)
    assert found.tpot_s == plain.tpot_s
