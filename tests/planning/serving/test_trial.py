"""A plan under its load: its capacity, its users, and the load as it is stated."""

import pytest
from planning.serving.questions import LOAD, RATE, SMALL

from sightline.planning.search import plan
from sightline.planning.serving.trial import WITHIN
from sightline.simulation.simulate import simulate


def test_the_capacity_meets_the_objective_and_a_little_more_does_not(answer) -> None:
    profile = answer.plans[0].profile
    work = profile.scenario.workload
    again = simulate(profile.scenario, intervals=False)
    assert again.goodput_requests_per_s >= 0.9 * again.requests_per_s * (1 - 1e-9)
    assert work.arrival.rate == pytest.approx(profile.capacity_requests_per_s)
    assert WITHIN < 0.05


def test_users_wait_for_answers_and_think_between_them() -> None:
    one, other = (plan(SMALL, top=1, objective="users", think_time=think) for think in (None, "30 s"))
    rate = one.plans[0].figures["capacity_requests_per_s"]
    assert other.plans[0].figures["capacity_requests_per_s"] == rate
    more = other.plans[0].figures["most_users"] - one.plans[0].figures["most_users"]
    assert more == pytest.approx(30 * rate, rel=0.05)


def test_users_hardly_depend_on_the_seed() -> None:
    """Those of a single stream of requests differ by a fourth."""
    stated = {**SMALL, "plan": {**SMALL["plan"], "max_sequences": 56}}
    counts = [
        plan(stated, top=1, objective="users", overrides={"workload.seed": seed}).plans[0].figures["most_users"]
        for seed in (0, 2)
    ]
    assert counts[0] == pytest.approx(counts[1], rel=0.1)


def test_a_stated_load_is_simulated_as_it_is(answer) -> None:
    stated = plan(SMALL, top=1, overrides=RATE)
    (best,) = stated.plans
    assert best.profile.scenario.workload.arrival.rate == 20
    assert best.profile.completed == 400
    assert best.figures["capacity_requests_per_s"] > 20
    assert best.figures["meets_slo"]
    assert not any("exceeds the best plan" in warning for warning in stated.warnings)
    assert best.profile.ttft_s["p90"] < answer.plans[0].profile.ttft_s["p90"]


def test_a_load_that_nobody_serves_is_told() -> None:
    busy = plan(SMALL, top=1, overrides={"workload.arrival": {"process": "poisson", "rate": 5000}})
    assert not busy.plans[0].figures["meets_slo"]
    assert "exceeds the best plan" in busy.warnings[-1]


def test_a_trace_that_is_too_short_for_a_capacity_is_told(tmp_path, answer) -> None:
    rows = "\n".join(f"{place / 10},512,32" for place in range(20))
    (tmp_path / "few.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}\n")
    work = {"task": "serve", "trace": str(tmp_path / "few.csv"), "slo": LOAD["slo"]}
    found = plan({**SMALL, "workload": work}, top=1)
    assert "workload.requests.count" in found.warnings[-1]
    assert not any("more requests" in warning for warning in answer.warnings)
