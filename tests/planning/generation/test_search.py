"""The best serving plan is that of every plan predicted alone, whatever the model, the engine and the limits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.loading import generation_from_mapping
from sightline.planning.generation.generation_search import search
from sightline.planning.generation.space import variants
from sightline.planning.generation_objectives import FIGURES, OF_FURTHER_TOKENS, figure_key, more_is_better, within
from sightline.planning.heterogeneous_search import all_run
from sightline.planning.plan_answer import PlanAnswer
from sightline.prediction import predict
from sightline.profile import Profile
from sightline.progress import Progress
from sightline.scenario import GenerationPlan, GenerationScenario
from sightline.scenario.generation import DEGREES
from sightline.scenario.space import Space

MODELS = ("qwen3-8b", "qwen3-30b-a3b", "deepseek-v2-lite")
"""Dense, a mixture of experts, and one with latent attention."""
DEGREES_AND_CHUNKS = (*DEGREES, "replicas", "max_batched_tokens", "chunked_prefill")
ALL_FIELDS = (
    "framework",
    *(name for name in GenerationPlan.__dataclass_fields__ if name not in ("engine", "max_sequences")),
)
"""All but the sequences in flight: left out, they are no limit; free, each engine has its own."""


def mapping(
    model: str = "qwen3-8b",
    cluster: str = "4x h100-sxm-80gb",
    plan: Mapping[str, Any] | None = None,
    **work: Any,
) -> dict[str, Any]:
    """A question about generation, with one engine."""
    sizes = {"batch": 8, "prompt_tokens": 700, "output_tokens": 60}
    return {
        "model": model,
        "cluster": cluster,
        "workload": {"task": "generate", **sizes, **work},
        "plan": {"framework": "vllm", **(plan or {})},
    }


def space(asked: Mapping[str, Any], *fixed: str, free: Sequence[str] = DEGREES_AND_CHUNKS, **allowed: Any) -> list[Any]:
    """The space of a question with some fields free, others fixed or restricted."""
    values = {name: None for name in free if name not in fixed} | allowed
    return [Space(scenario=generation_from_mapping(asked), values=values, launchable=False)]


def every_plan(asked: Mapping[str, Any], allowed: Mapping[str, tuple[Any, ...]]) -> Iterator[Profile]:
    """Predictions of every plan that loads, one by one; disaggregated ones where a load of prefill is allowed."""
    devices = int(asked["cluster"].split("x ")[0])
    divisors = [i for i in range(1, devices + 1) if devices % i == 0]
    dense = generation_from_mapping(asked).model.experts is None
    shapes = [
        (t, p, d, e)
        for t, p, d in product(divisors, divisors, (1,) if dense else divisors)
        if t * p * d <= devices
        for e in ((1,) if dense else divisors)
    ]
    named = {
        "framework": (asked["plan"]["framework"],),
        "quantization": (asked["plan"].get("quantization"),),
        **allowed,
    }
    cuts = [named[name] for name in ("max_batched_tokens", "chunked_prefill", "framework", "quantization")]
    for batch, budget, chunked, engine, words in product(allowed["batch"], *cuts):
        shared = {**asked["plan"], "max_batched_tokens": budget, "chunked_prefill": chunked, "framework": engine}
        shared |= {} if words is None else {"quantization": list(words)}
        for plan in _pools(shapes, devices, allowed) if "prefill.batch" in allowed else _replicas(shapes, devices):
            question = {**asked, "workload": {**asked["workload"], "batch": batch}, "plan": {**shared, **plan}}
            try:
                scenario = generation_from_mapping(question)
            except InputError:
                continue
            if _has_degrees(scenario):
                yield predict(scenario)


def _has_degrees(scenario: GenerationScenario) -> bool:
    """Whether the engine has all degrees that a plan uses, which no rule of a scenario asks."""
    split = scenario.plan.disaggregate
    return all(
        getattr(plan, name) == 1 or name in plan.engine.support.degrees
        for plan in (scenario.plan, *([] if split is None else [split.prefill]))
        for name in DEGREES
    )


def _replicas(shapes: list[tuple[int, ...]], devices: int) -> Iterator[dict[str, Any]]:
    for shape in shapes:
        yield {**dict(zip(DEGREES, shape, strict=True)), "replicas": devices // (shape[0] * shape[1] * shape[2])}


def _pools(
    shapes: list[tuple[int, ...]], devices: int, allowed: Mapping[str, tuple[Any, ...]]
) -> Iterator[dict[str, Any]]:
    counts = range(1, devices)
    for prefill, decode, x, y, load in product(shapes, shapes, counts, counts, allowed["prefill.batch"]):
        pools = {
            "prefill": {**dict(zip(DEGREES, prefill, strict=True)), "replicas": x, "batch": load},
            "decode": {**dict(zip(DEGREES, decode, strict=True)), "replicas": y},
        }
        if x * prefill[0] * prefill[1] * prefill[2] + y * decode[0] * decode[1] * decode[2] == devices:
            yield {"disaggregate": pools}


def best_value(key: str, answer: PlanAnswer) -> float:
    """The best figure among the answered plans; the first may be a simpler one that is as good."""
    pick = max if more_is_better(key) else min
    return pick(plan.value for plan in answer.plans)


def feasible(profile: Profile, limits: Mapping[str, float]) -> bool:
    return all_run(profile) and all(within(key, FIGURES[key](profile), limit) for key, limit in limits.items())


spaces = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "cluster": st.sampled_from(("2x rtx-4090", "4x rtx-4090", "4x h100-sxm-80gb", "6x a100-sxm-40gb")),
        "continuous": st.booleans(),
        "equal_lengths": st.booleans(),
        "prompt_tokens": st.integers(1, 9000),
        "output_tokens": st.integers(1, 300),
    }
)
values = st.fixed_dictionaries(
    {
        "batch": st.lists(st.integers(1, 400), min_size=1, max_size=2, unique=True).map(tuple),
        "max_batched_tokens": st.lists(st.sampled_from((512, 2048, 8192)), min_size=1, max_size=2, unique=True).map(
            tuple
        ),
        "chunked_prefill": st.sampled_from(((True,), (False, True))),
        "framework": st.sampled_from((("vllm",), ("sglang",), ("tensorrt-llm", "tgi"), ("vllm", "lmdeploy"))),
        "quantization": st.sampled_from(((None,), (("fp8",),), (None, ("w4a16",)), (("kv-fp8",), ("fp8", "kv-fp8")))),
    }
)


@settings(max_examples=12, deadline=None)
@given(
    asked=spaces,
    allowed=values,
    objective=st.sampled_from(("throughput", "latency", "cost", "memory", "energy", "ttft_s")),
    share=st.floats(0.2, 3.0),
    pooled=st.booleans(),
)
def test_the_best_is_that_of_every_plan_predicted_alone(asked, allowed, objective, share, pooled):
    if pooled:
        asked = {**asked, "cluster": "3x h100-sxm-80gb", "model": "qwen3-8b"}
        allowed = {**allowed, "prefill.batch": (1, 3)}
    key = figure_key(objective)
    # Nobody has a figure of further tokens where there are none, and asking for it is refused.
    assume(asked["output_tokens"] > 1 or key not in OF_FURTHER_TOKENS)
    question = mapping(**asked)
    every = list(every_plan(question, allowed))
    limits = {"ttft_s": share * min((plan.ttft_s for plan in every), default=1.0)}
    answer = search(space(question, free=ALL_FIELDS, disaggregate=(pooled,), **allowed), objective, limits)
    wanted = [FIGURES[key](plan) for plan in every if feasible(plan, limits)]
    assert bool(answer.plans) == bool(wanted)
    assert answer.evaluated <= sum(bool(plan.fits) for plan in every)
    if wanted:
        best = max(wanted) if more_is_better(key) else min(wanted)
        assert best_value(key, answer) == pytest.approx(best, rel=1e-9)
        values = {f"{value:.9e}" for value in map(float, wanted)}
        assert all(f"{plan.value:.9e}" in values for plan in answer.plans)


@settings(max_examples=15, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    key=st.sampled_from(("ttft_s", "tpot_s")),
    objective=st.sampled_from(("throughput", "cost", "memory", "energy")),
    looser=st.floats(1.0, 30.0),
)
def test_a_tighter_limit_never_improves_the_objective(model, key, objective, looser):
    of = space(mapping(model, continuous=True), batch=(1, 8, 64))
    least = search(of, key).plans[0].value
    tight, loose = (search(of, objective, {key: least * factor}) for factor in (looser, 2.0 * looser))
    assert tight.feasible <= loose.feasible
    assert tight.plans
    values = [best_value(figure_key(objective), answer) for answer in (tight, loose)]
    if more_is_better(figure_key(objective)):
        values = [-value for value in values]
    assert values[1] <= values[0] + 1e-9 * abs(values[0])


@pytest.mark.parametrize("model", [*MODELS, "qwen3-32b-fp8", "qwen3-next-80b-a3b"])
@pytest.mark.parametrize("continuous", [pytest.param(False, marks=pytest.mark.slow), True])
def test_what_is_answered_is_what_each_plan_says_alone(model, continuous):
    asked = mapping(model, "4x h200-sxm-141gb", continuous=continuous)
    allowed = {"framework": ("vllm", "sglang"), "max_batched_tokens": (512, 8192)}
    of = space(asked, free=ALL_FIELDS, batch=(3, 64), **allowed)
    answer = search(of, "throughput", top=4)
    front = search(of, pareto=("interactivity", "throughput"))
    for plan in (*answer.plans, *front.plans[:4]):
        alone = predict(plan.profile.scenario)
        for key, value in plan.figures.items():
            if key in FIGURES:
                assert FIGURES[key](alone) == pytest.approx(value, rel=1e-9), key
        assert alone.fits


def test_engines_that_run_the_model_on_the_device_are_tried():
    names = {"qwen3-8b": {"tgi", "lightllm", "mlc", "vllm"}, "qwen3-next-80b-a3b": {"vllm", "sglang", "tensorrt-llm"}}
    for model, tried in names.items():
        of = space(mapping(model, "1x h200-sxm-141gb"), free=ALL_FIELDS, quantization=(("fp8",), None))
        found = {variant.scenario.plan.engine.name for variant in variants(of[0])}
        assert tried <= found
        assert not found & {"reference", "fastertransformer"}
        assert ("mlc" in found) == (model == "qwen3-8b")
    with pytest.raises(InputError, match=r"deepseek-v3.2 on apple-m2-10core-16gb"):
        search(space(mapping("deepseek-v3.2", "1x apple-m2-10core-16gb"), free=ALL_FIELDS))


def test_a_cluster_that_no_layout_fills_says_so():
    answer = search(space(mapping(cluster="3x h100-sxm-80gb"), tensor_parallel=(2,)))
    assert answer.rejected == {"engine_devices": 1}


def test_prefill_workers_have_to_hold_the_model_too():
    """One device has no room for the weights, four have."""
    asked = mapping("llama-2-70b", "6x h100-sxm-80gb", plan={"quantization": "none"})
    pools = {"disaggregate": (True,), "decode.tensor_parallel": (4,)}
    answer = search(
        space(asked, **pools, **{"prefill.tensor_parallel": (1, 2), "prefill.pipeline_parallel": (1,)}), top=50
    )
    assert answer.rejected["memory"] > 0
    assert {plan.profile.scenario.plan.disaggregate.prefill.tensor_parallel for plan in answer.plans} == {2}


def test_the_front_holds_no_plan_that_another_beats_in_both_figures():
    of = space(mapping(continuous=True), batch=(1, 4, 16, 64, 256))
    answer = search(of, pareto=("interactivity", "throughput"))
    axes = [figure_key(name) for name in answer.pareto_axes]
    points = [tuple(plan.figures[key] for key in axes) for plan in answer.plans]
    assert len(points) > 3
    for x, y in points:
        assert not any(a >= x and b >= y and (a, b) != (x, y) for a, b in points)
    assert points == sorted(points, reverse=True)
    best = search(of, "throughput")
    assert best_value(axes[1], best) == pytest.approx(points[-1][1])
    assert best.pareto


def test_every_choice_that_says_nothing_new_counts_once():
    """Prompts that fit one iteration are cut alike by all larger budgets."""
    asked = mapping(cluster="1x h100-sxm-80gb", prompt_tokens=400, batch=1)
    answer = search(space(asked, max_batched_tokens=(512, 1024, 8192), chunked_prefill=(False, True)))
    assert answer.evaluated == 1
    assert answer.plans[0].profile.scenario.plan.max_batched_tokens == 8192


def test_fixed_and_restricted_fields_are_kept():
    asked = mapping(model="qwen3-30b-a3b", plan={"tensor_parallel": 2, "memory_fraction": 0.7})
    answer = search(space(asked, "tensor_parallel", replicas=(1,)), top=100)
    plans = [plan.profile.scenario.plan for plan in answer.plans]
    assert {(plan.tensor_parallel, plan.replicas, plan.memory_fraction) for plan in plans} == {(2, 1, 0.7)}
    assert {plan.expert_parallel for plan in plans} >= {1, 2}


def test_stated_workers_stay_as_they_are():
    pools = {"prefill": {"tensor_parallel": 1, "replicas": 2, "batch": 2}, "decode": {"tensor_parallel": 2}}
    asked = mapping(plan={"disaggregate": pools})
    split = search(space(asked)).plans[0].profile.scenario.plan
    assert (split.tensor_parallel, split.replicas) == (2, 1)
    assert (split.disaggregate.prefill.replicas, split.disaggregate.prefill_batch) == (2, 2)


def test_where_no_plan_meets_the_limits_the_nearest_says_what_it_needs():
    answer = search(space(mapping(), batch=(1, 8)), limits={"tpot_s": 1e-5})
    assert not answer.plans
    assert answer.rejected["tpot_s"] == answer.evaluated > 0
    (nearest,) = answer.nearest
    least = search(space(mapping(), batch=(1, 8)), "latency").plans[0].value
    assert nearest.set["tpot_s"] == pytest.approx(least, rel=0.05)
    assert "instead of TPOT 10 us" in nearest.sentence


def test_plans_that_do_not_fit_are_counted_and_not_answered():
    answer = search(space(mapping("qwen3-32b", "2x rtx-4090")))
    assert not answer.plans
    assert answer.rejected["memory"] > 0
    assert answer.evaluated == 0


@pytest.mark.parametrize(
    ("model", "continuous", "limits"),
    [
        ("qwen3-8b", False, {"ttft_s": 0.3}),
        ("qwen3-30b-a3b", True, {"tpot_s": 0.015}),
        ("deepseek-v2-lite", True, {"tpot_s": 0.012, "ttft_s": 0.2}),
    ],
)
def test_the_most_users_are_those_of_every_batch_predicted_alone(model, continuous, limits):
    asked = mapping(model, "2x h100-sxm-80gb", continuous=continuous)
    of = space(asked, max_batched_tokens=(8192,), chunked_prefill=(True,))
    every = search(of, "users", limits, top=100)
    allowed = {"batch": range(1, 80), "max_batched_tokens": (8192,), "chunked_prefill": (True,)}
    alone = [plan for plan in every_plan(asked, allowed) if feasible(plan, limits)]
    best = max(plan.scenario.workload.batch for plan in alone)
    assert 1 < best < 79
    assert every.plans[0].value == every.plans[0].figures["most_users"] == best
    by_plan = {str(one.profile.scenario.plan.to_dict()): one.value for one in every.plans}
    for plan in alone:
        assert by_plan[str(plan.scenario.plan.to_dict())] >= plan.scenario.workload.batch


def test_the_plan_with_the_most_users_does_not_depend_on_how_many_are_shown():
    of = space(mapping(cluster="8x h100-sxm-80gb"), "chunked_prefill")
    one, ten = (search(of, "users", {"tpot_s": 0.015}, top=top) for top in (1, 10))
    assert len(ten.plans) == 10
    assert one.plans[0].value == ten.plans[0].value == max(plan.value for plan in ten.plans)
    assert one.plans[0].profile.scenario.plan.to_dict() == ten.plans[0].profile.scenario.plan.to_dict()
    assert [plan.value for plan in ten.plans] == sorted((plan.value for plan in ten.plans), reverse=True)
    assert "batch" in one.free


@pytest.mark.parametrize("model", MODELS)
def test_each_plan_says_for_how_many_users_it_is_good(model):
    asked = mapping(model, continuous=True)
    limits = {"ttft_s": 0.5, "tpot_s": 0.02}
    for one in search(space(asked), limits=limits, top=3).plans:
        scenario = one.profile.scenario
        users = one.figures["most_users"]
        good, more = (
            predict(replace(scenario, workload=replace(scenario.workload, batch=count))) for count in (users, users + 1)
        )
        assert feasible(good, limits)
        assert not feasible(more, limits)


@settings(max_examples=15, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    cluster=st.sampled_from(("2x rtx-4090", "4x rtx-4090", "4x h100-sxm-80gb")),
    shares=st.tuples(st.floats(0.5, 4.0), st.floats(0.5, 4.0), st.floats(0.3, 1.0)),
    batch=st.integers(1, 300),
)
def test_every_valid_plan_is_feasible_or_counted_once_under_a_limit(model, cluster, shares, batch):
    asked = mapping(model, cluster, batch=batch)
    allowed = {"max_batched_tokens": (2048,), "chunked_prefill": (True,)}
    every = list(every_plan(asked, {**allowed, "batch": (batch,)}))
    keys = ("ttft_s", "tpot_s", "memory_bytes.total")
    limits = {key: share * min(FIGURES[key](plan) for plan in every) for key, share in zip(keys, shares, strict=True)}
    answer = search(space(asked, **allowed), limits=limits)
    counted = {name: count for name, count in answer.rejected.items() if name in ("ttft_s", "tpot_s", "memory")}
    assert answer.feasible + sum(counted.values()) == len(every)
    assert answer.feasible == sum(feasible(plan, limits) for plan in every)


def test_rent_is_of_output_tokens_and_of_all_tokens():
    answer = search(space(mapping(prompt_tokens=900, output_tokens=100)))
    for plan in answer.plans:
        generated, whole = (plan.figures[f"cost_usd_per_million_{of}"] for of in ("tokens", "total_tokens"))
        assert generated == pytest.approx(10 * whole)
        assert generated == pytest.approx(plan.profile.cost_usd_per_million_tokens)


def test_the_answer_says_which_load_it_is_for():
    batch, steady = (search(space(mapping(continuous=of))).assumptions["load"] for of in (False, True))
    assert "workload.continuous=true" in batch
    assert "steady" in steady


def test_a_cancelled_search_answers_what_it_found():
    progress = Progress(lambda state: progress.cancel() if state.done else None, every_s=0.0)
    of = space(mapping(), free=ALL_FIELDS, batch=(1, 8))
    answer = search(of, progress=progress)
    assert answer.stopped
    assert answer.plans
    assert answer.evaluated < search(of).evaluated


def test_an_unknown_objective_is_named_with_its_nearest_spelling():
    with pytest.raises(InputError, match="did you mean 'throughput'"):
        search(space(mapping()), "thruput")
