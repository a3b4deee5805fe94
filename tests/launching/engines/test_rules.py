"""What a search calls launchable is what is written: masks over many plans agree with the writer of each."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InputError
from sightline.launching import write
from sightline.launching.engines.rules import launch_questions
from sightline.launching.engines.servers import placed
from sightline.launching.registry import ENGINE_WRITERS, obstacles
from sightline.scenario import Disaggregation
from sightline.scenario.rules.rulebook import judged

QUESTION = {
    "model": "qwen3-0.6b",
    "cluster": {"devices": "12x h100-sxm-80gb", "per_node": 4},
    "workload": {"task": "generate", "batch": 8, "prompt_tokens": 64, "output_tokens": 16},
    "plan": {"framework": "vllm", "tensor_parallel": 1, "replicas": 12},
}
SCENARIO = sl.load(QUESTION)


def problems(call, scenario):
    """What a function refuses of a scenario."""
    try:
        call(scenario)
    except InputError as error:
        return tuple(error.problems)
    return ()


@given(
    devices=st.integers(1, 40),
    per_node=st.integers(1, 8),
    sizes=st.lists(st.tuples(st.integers(1, 17), st.integers(1, 9)), min_size=1, max_size=2),
)
@settings(max_examples=300, deadline=None)
def test_servers_have_room_where_they_are_placed(devices, per_node, sizes):
    layouts = [replace(SCENARIO.plan, pipeline_parallel=size, replicas=count) for size, count in sizes]
    split = None if len(layouts) == 1 else Disaggregation(prefill=layouts[0], prefill_batch=1)
    cluster = replace(SCENARIO.cluster, devices=devices, per_node=per_node)
    one = replace(SCENARIO, cluster=cluster, plan=replace(layouts[-1], disaggregate=split))
    columns = {name: np.array([getattr(one.plan, name)] * 2) for name in ("pipeline_parallel", "replicas")}
    many = replace(one, plan=replace(one.plan, **columns))
    rejected = judged(launch_questions(many)).rejected
    assert ("servers_on_nodes" in rejected) == bool(problems(placed, one))


@pytest.mark.parametrize("engine", ENGINE_WRITERS)
@pytest.mark.parametrize("model", ["qwen3-0.6b", "qwen3-30b-a3b"])
def test_plans_of_a_search_are_written_and_others_are_refused_with_the_same_words(engine, model):
    question = {**QUESTION, "model": model, "plan": {"framework": engine, "quantization": ["none"]}}
    free, default = (sl.plan(question, top=1_000, launchable=is_set) for is_set in (False, True))
    for one in free.plans:
        assert problems(write, one.profile.scenario) == tuple(one.obstacles)
    assert all(one.launchable for one in default.plans)
    if free.evaluated < 1_000:
        assert default.evaluated == sum(one.launchable for one in free.plans)
    assert default.evaluated <= free.evaluated


def test_an_engine_without_a_launch_is_searched_when_it_is_named():
    answer = sl.plan({**QUESTION, "plan": {"framework": "mlc"}}, top=1)
    assert answer.plans
    assert "no launch is written" in obstacles(answer.plans[0].profile.scenario)[0]
    both = sl.plan({**QUESTION, "plan": {"framework": {"any": ["mlc", "vllm"]}}}, top=1_000)
    assert {one.profile.scenario.plan.engine.name for one in both.plans} == {"vllm"}
    assert any("mlc" in said for said in both.warnings)


def test_a_load_is_refused_with_the_words_of_its_writer():
    shape = {"count": 10, "prompt_tokens": 100, "output_tokens": 10}
    load = {"task": "serve", "requests": shape, "arrival": {"process": "poisson", "rate": 1}}
    served = {"model": "qwen3-0.6b", "cluster": "1x h100-sxm-80gb", "workload": load}
    scenario = sl.load({**served, "plan": {"framework": "lightllm", "kv_block_tokens": 16}})
    assert obstacles(scenario) == problems(write, scenario) != ()
    assert not obstacles(sl.load({**served, "plan": {"framework": "lightllm"}}))
