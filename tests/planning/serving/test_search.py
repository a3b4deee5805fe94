"""The best plans to serve a load are those of trying every layout, engine and size of iterations."""

from dataclasses import replace
from itertools import product

import pytest
from planning.serving.questions import LOAD, PLAN, QUESTION, RENT, SMALL

from sightline.answers.plan_columns import choices
from sightline.answers.plan_sentences import title
from sightline.errors import InputError
from sightline.loading import load
from sightline.planning.request_spaces import spaces_of
from sightline.planning.search import plan
from sightline.planning.serving import ranked
from sightline.planning.serving.serving_search import search
from sightline.planning.serving.trial import WHOLE, tried
from sightline.progress import Progress, State
from sightline.simulation.simulate import find_capacity


def test_plans_are_ranked_by_the_rate_that_they_serve_per_device(answer) -> None:
    rates = [one.figures["capacity_requests_per_s"] for one in answer.plans]
    assert answer.objective == "goodput"
    assert rates == sorted(rates, reverse=True)
    assert [one.value for one in answer.plans] == [rate / 2 for rate in rates]
    assert answer.evaluated >= answer.feasible > 0
    assert [one.rank for one in answer.plans] == [1, 2, 3]


def highest(scenario) -> float:
    return find_capacity(scenario).rate or 0.0


LENGTHS = {
    "prompt_tokens": {"distribution": "lognormal", "mean": 1165, "cv": 0.8, "max": 8192},
    "output_tokens": {"distribution": "lognormal", "mean": 220, "cv": 0.8},
}


DENSE = [{"tensor_parallel": t, "pipeline_parallel": p} for t, p in ((1, 1), (1, 2), (2, 1))]
MIXTURE = [
    {"tensor_parallel": t, "data_parallel": d, "expert_parallel": e}
    for t, d, e in ((1, 4, 4), (1, 2, 2), (2, 1, 2), (2, 1, 1), (4, 1, 4))
]


@pytest.mark.parametrize(
    ("engine", "model", "devices", "layouts", "sizes"),
    [
        ("vllm", "llama-3.1-8b", 2, DENSE, (1024, 2048, 8192, 16384)),
        ("sglang", "llama-3.1-8b", 2, DENSE, (1024, 2048, 8192, 16384)),
        ("tensorrt-llm", "llama-3.1-8b", 2, DENSE, (8192, 16384)),
        ("tensorrt-llm", "qwen3-30b-a3b", 4, MIXTURE, (8192, 16384)),
    ],
)
def test_no_layout_of_the_space_serves_more_than_the_best_plan(engine, model, devices, layouts, sizes) -> None:
    load_ = {"task": "serve", "requests": {"count": 400, **LENGTHS}, "slo": {"ttft": "1 s", "tpot": "25 ms"}}
    own = {
        "framework": engine,
        "quantization": "none",
        "disaggregate": "none",
        "chunked_prefill": engine != "tensorrt-llm",
    }
    question = {"model": model, "cluster": f"{devices}x h100-sxm-80gb", "workload": load_, "plan": own}
    best = plan(question, top=1).plans[0].profile.scenario
    every = [
        load({**question, "plan": {**own, **layout, "max_batched_tokens": size}})
        for layout, size in product(layouts, sizes)
    ]
    assert highest(best) >= 0.98 * max(map(highest, every))


def test_the_winner_is_simulated_as_a_single_plan_is(answer) -> None:
    best = answer.plans[0]
    assert highest(best.profile.scenario) == pytest.approx(best.figures["capacity_requests_per_s"], rel=0.02)
    low, high = best.profile.interval["capacity_requests_per_s"]
    assert low < best.figures["capacity_requests_per_s"] < high


def test_no_other_size_of_iterations_serves_more_than_that_of_the_best_plan() -> None:
    # A steady loop of mean lengths ranks the sizes; bursts of long prompts rank them otherwise.
    lengths = {"distribution": "lognormal", "mean": 1165, "cv": 0.8, "max": 8192}
    load = {**LOAD, "requests": {"count": 200, "prompt_tokens": lengths, "output_tokens": 64}}
    one = {**PLAN, "tensor_parallel": 1, "pipeline_parallel": 1, "chunked_prefill": True}
    question = {"model": "llama-3.1-8b", "cluster": "1x h100-sxm-80gb", "workload": load, "plan": one}
    found = search(spaces_of(question), top=1)
    best = found.best(1)[0].trial
    assert best in found.trials
    assert {"max_batched_tokens"} < {*best.finalist.steady.columns}
    assert found.other_sizes
    assert all(found.rank_value(other) >= found.rank_value(best) for other in found.other_sizes)
    sizes = {other.finalist.scenario.plan.max_batched_tokens for other in (best, *found.other_sizes)}
    assert {512, 2048, 32768} < sizes
    (own,) = plan(question, top=1, overrides={"plan.max_batched_tokens": 2048}).plans
    assert own.profile.scenario.plan.max_batched_tokens == 2048


def test_each_engine_that_is_asked_about_has_a_row() -> None:
    engines = ["vllm", "sglang", "tensorrt-llm"]
    found = plan(SMALL, top=1, overrides={"plan.framework": {"any": engines}})
    best = found.plans[0]
    others = {one.set["plan.framework"]: one.loss for one in found.alternatives}
    assert {best.profile.scenario.plan.engine.name, *others} == set(engines)
    for name, loss in others.items():
        alone = plan(SMALL, top=1, overrides={"plan.framework": name}).plans[0]
        assert alone.value <= best.value * 1.02
        assert best.value / alone.value - 1 == pytest.approx(loss, abs=0.15)


def test_few_layouts_are_simulated_and_the_best_of_these_closely() -> None:
    question = {**SMALL, "plan": PLAN | {"max_batched_tokens": 2048}, "cluster": "4x h100-sxm-80gb"}
    found = search(spaces_of(question), top=1)
    assert len(found.trials) < len(found.brief) < len(found.swept.finalists)
    assert found.best(1)[0].trial.how is WHOLE
    assert {one.finalist.steady.variant.pooled for one in found.trials} == {False, True}


def test_a_search_that_is_stopped_answers_what_it_has() -> None:
    def stop_after_one(state: State) -> None:
        if state.what == "simulating" and state.done:
            progress.cancel()

    progress = Progress(stop_after_one, every_s=0)
    found = search(spaces_of(QUESTION), top=3, progress=progress)
    assert found.stopped
    assert len(found.trials) == 1


def test_rent_needs_a_price() -> None:
    (space,) = spaces_of(QUESTION)
    cluster = space.scenario.cluster
    unpriced = replace(cluster, device=replace(cluster.device, usd_per_hour=None))
    with pytest.raises(InputError, match="the price of h100-sxm-80gb is unknown"):
        search([replace(space, scenario=replace(space.scenario, cluster=unpriced))], "cost")


def stopped(question, *, after, **asked):
    """The answer of a search that is stopped once so many layouts are simulated."""

    def stop(state: State) -> None:
        if state.what == "simulating" and state.done >= after:
            progress.cancel()

    progress = Progress(stop, every_s=0)
    return plan(question, progress=progress, **asked)


def test_a_stopped_search_for_the_least_rent_answers_the_layouts_that_serve_the_load() -> None:
    answer = stopped({**SMALL, "cluster": "8x h100-sxm-80gb"}, after=1, **RENT)
    assert answer.stopped
    assert answer.plans[0].figures["meets_slo"]
    assert title(answer) != "No plan fits"


def test_a_search_that_is_stopped_before_its_first_simulation_names_the_most_promising_layout() -> None:
    answer = stopped(QUESTION, after=0, top=1)
    assert answer.stopped
    assert not answer.plans
    assert "Stopped" in title(answer)
    assert any("tensor_parallel" in warning for warning in answer.warnings)


def test_the_best_plan_without_quantization_stands_beside_quantized_ones() -> None:
    formats = {key: value for key, value in SMALL["plan"].items() if key != "quantization"}
    found = plan({**SMALL, "plan": formats}, top=1)
    first, plain = found.plans
    assert first.profile.scenario.plan.quantization
    assert plain.profile.scenario.plan.quantization is None
    assert first.value > plain.value > 0
    assert plain.rank > first.rank
    assert f"plan {plain.rank} " in found.assumptions["quantization"]
    assert "bf16" in next(column.cells for column in choices(found) if column.key == "quantization")
    assert len(plan(SMALL, top=1).plans) == 1


def test_a_single_change_chooses_automatic_values_anew(monkeypatch) -> None:
    whole = {**QUESTION, "plan": {**PLAN, "pipeline_parallel": 1}}
    found = search(spaces_of(whole), top=1)
    (best,) = found.best(1)
    others = [one for one in found.swept.finalists if one is not best.trial.finalist]
    own = replace(best.trial.finalist.scenario.plan, max_batched_tokens=512)
    placed = best._replace(trial=replace(best.trial, finalist=best.trial.finalist.changed(own)))
    found.trials[:] = [placed.trial]
    asked = []
    monkeypatch.setattr(ranked, "tried", lambda one, guess, how: asked.append(one) or tried(one, guess, how=how))
    changes = ranked.neighbours(placed, found, ("tensor_parallel", "replicas"))
    (layout,) = (one for one in asked if one.scenario.plan.tensor_parallel != own.tensor_parallel)
    assert layout in others
    assert layout.scenario.plan.max_batched_tokens != 512
    (said,) = (one for one in changes if "plan.tensor_parallel" in one.set)
    assert f"max_batched_tokens {layout.scenario.plan.max_batched_tokens}" in said.sentence


def test_what_is_stated_and_cannot_be_launched_is_ranked_and_marked() -> None:
    overrides = {"plan.router": "weighted", "plan.max_batched_tokens": 2048, "plan.disaggregate": "none"}
    degrees = {"plan.tensor_parallel": {"any": [1, 2]}, "plan.pipeline_parallel": 1, "workload.requests.count": 60}
    found = plan(QUESTION, overrides={**overrides, **degrees, "plan.chunked_prefill": True})
    launched = {one.profile.scenario.plan.replicas: one.launchable for one in found.plans}
    assert launched == {1: True, 2: False}
    several = plan(SMALL, top=1, overrides={"plan.framework": {"any": ["vllm", "sglang"]}, "plan.queue_timeout": 5})
    assert {one.profile.scenario.plan.engine.name for one in several.plans} == {"sglang"}
