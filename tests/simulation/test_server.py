"""Servers that are ready for a load: what they know of it."""

from dataclasses import replace

import pytest
from loads import whole
from serving_scenarios import serving

import sightline as sl
from sightline.scenario import Arrival, Serve
from sightline.simulation.server import server_of

LENGTHS = {"prompt_tokens": {"distribution": "lognormal", "mean": 700, "cv": 1.0}, "output_tokens": 60}
CONVERSATIONS = {"turns": 6, "prefix_tokens": 500}
DRAWN = serving(count=80, sessions=CONVERSATIONS, **LENGTHS)
OF_A_TOKEN = serving(prompt_tokens=1, output_tokens=1)
HOLDS_MANY = {"max_concurrent_requests": 700}
UNLIKE = {"devices": ["2x h100-sxm-80gb", "2x a100-sxm-80gb"], "network": "infiniband-hdr"}


def traced(folder, requests):
    """The scenario with a trace of the lengths of requests in place of its own."""
    path = folder / "load.csv"
    rows = zip(requests.prompt_tokens, requests.output_tokens, strict=True)
    lines = [f"{place / 10},{prompt},{output}" for place, (prompt, output) in enumerate(rows)]
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *lines]))
    return replace(DRAWN, workload=Serve(trace=str(path), arrival=Arrival(process="trace")))


def test_the_errors_of_times_are_those_of_the_load_wherever_it_comes_from(tmp_path):
    load = whole(DRAWN)
    drawn, *others = (server_of(DRAWN), server_of(traced(tmp_path, load)), server_of(OF_A_TOKEN, load=[load]))
    for of in others:
        assert of.lengths[:2] == pytest.approx(drawn.lengths[:2])
        assert of.half_widths == pytest.approx(drawn.half_widths)


def test_a_load_in_place_of_the_scenario_s_has_the_intervals_of_its_own_lengths():
    burst = {"arrival": {"process": "all_at_once"}, "count": 1}
    long = serving(**burst, prompt_tokens=3000, output_tokens=400)
    asked = serving(**burst, prompt_tokens=1, output_tokens=1)
    given, own = (sl.simulate(one, load=[whole(long)]).interval for one in (asked, long))
    assert given == own


def test_iterations_err_by_what_a_plan_has_pools_for_and_what_its_links_share():
    split = {"tensor_parallel": 1, "disaggregate": {"prefill": {}, "decode": {}}}
    whole, pools = (
        server_of(serving(cluster="2x h100-sxm-80gb", plan={"framework": "sglang", **of}))
        for of in ({"tensor_parallel": 2}, split)
    )
    constants = pools.pools[0].constants
    wider = constants.pools_spread**2 - constants.tpot_spread**2
    assert pools.half_widths[1] ** 2 - whole.half_widths[1] ** 2 == pytest.approx(wider)
    shares = {"intra_node": {"same_as": "pcie4-no-p2p", "shares": {2: 1.0, 4: 1.0}}}
    clusters = ({"devices": "4x rtx-3090", **stated} for stated in ({}, shares))
    unknown, known = (server_of(serving(cluster=of, plan={"tensor_parallel": 4})).half_widths for of in clusters)
    assert unknown[0] > 1.2 * known[0]
    assert unknown[1] > 1.2 * known[1]


def test_routers_weigh_unlike_replicas_by_what_turns_of_conversations_ask():
    def speeds(**asked):
        scenario = serving(cluster=UNLIKE, count=500, plan={"tensor_parallel": 1}, output_tokens=4, **asked)
        return [pool.facts.speed for pool in server_of(scenario).deployment(scenario).pools]

    turns = speeds(prompt_tokens=100, sessions={"turns": 1, "prefix_tokens": 3900})
    assert turns == pytest.approx(speeds(prompt_tokens=4000))
    assert turns != pytest.approx(speeds(prompt_tokens=100))


def test_a_server_that_holds_more_requests_runs_more_where_only_that_limits_it():
    asked = {"framework": "tgi", "framework_version": "1"}
    usual, raised = (server_of(serving(plan=asked | more)).pools[0].facts for more in ({}, HOLDS_MANY))
    assert (usual.max_sequences, raised.max_sequences) == (128, 700)


def test_a_cache_that_is_stated_takes_the_place_of_what_fits():
    """A few blocks more than fit in the engine's share of memory; far more than the device has fit in none."""
    usual = server_of(serving()).pools[0].room
    more = server_of(serving(plan={"kv_cache_blocks": usual.blocks + 9})).pools[0].room
    assert (more.blocks, more.fits) == (usual.blocks + 9, True)
    cache = more.memory_bytes["kv_cache"]
    assert cache == pytest.approx(usual.memory_bytes["kv_cache"] + 9 * usual.block_bytes)
    few = sl.simulate(
        serving(count=40, plan={"kv_cache_blocks": 90}, arrival={"process": "all_at_once"}), intervals=False
    )
    assert few.outcome.pools[0].kv_capacity_tokens == 89 * 16
    assert few.kv_use["max"] > 0.8
    unfit = sl.simulate(serving(plan={"kv_cache_blocks": 2 * usual.blocks}), intervals=False)
    assert (unfit.fits, unfit.completed) == (False, 0)
    assert "plan.kv_cache_blocks" in unfit.advice[0]


def test_the_budget_of_prompts_grows_with_the_cache_where_it_is_a_share_of_it():
    asked = {"framework": "lightllm", "framework_version": "0"}
    small, large = (server_of(serving(plan=asked | {"memory_fraction": of})).pools[0].facts for of in (0.22, 0.9))
    assert small.token_budget == 3072 > small.blocks / 6
    assert large.token_budget == pytest.approx(large.blocks / 6, rel=0.01)


def test_one_release_of_vllm_parses_a_chat_template_for_each_request_unless_the_model_has_none():
    def request_s(model, version):
        asked = serving(model=model, cluster="1x h100-sxm-80gb", plan={"framework_version": version})
        return server_of(asked).pools[0].facts.request_s

    assert request_s("qwen3-14b", "0.11.0") > 5 * request_s("qwen3-14b", "0.11.1")
    assert request_s("gpt-oss-20b", "0.11.0") == request_s("qwen3-14b", "0.11.1")
