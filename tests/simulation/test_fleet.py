"""Fleets of unlike replicas: pools for prompts and for decoding, and several kinds of devices."""

from dataclasses import replace

import numpy as np
import pytest
from serving_scenarios import serving

from sightline.errors import InputError
from sightline.simulation.engine.state import DECODE, PREFILL
from sightline.simulation.load import Requests
from sightline.simulation.outcome import COMPLETED, NO_ROOM
from sightline.simulation.server import server_of
from sightline.simulation.simulate import simulate
from sightline.simulation.times import packed, prompt_attention_seconds, step_seconds

APART = {"prefill": {"replicas": 2}, "decode": {"replicas": 2}}
UNLIKE = {"devices": ["2x h100-sxm-80gb", "2x a100-sxm-80gb"], "network": "infiniband-hdr"}


def disaggregated(framework="vllm", *, pools=APART, rate=20.0, devices=4, **asked):
    plan = {"framework": framework, "disaggregate": pools, **asked.pop("plan", {})}
    asked = {"arrival": {"process": "poisson", "rate": rate}, "count": 300, "prompt_tokens": 800} | asked
    return serving(cluster=f"{devices}x h100-sxm-80gb", plan=plan, **asked)


def requests(prompt, output, arrival_s=None):
    at = np.zeros(len(prompt)) if arrival_s is None else np.asarray(arrival_s, float)
    return Requests(arrival_s=at, prompt_tokens=np.array(prompt), output_tokens=np.array(output))


@pytest.mark.parametrize("framework", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("arrival", [{"process": "poisson", "rate": 20.0}, {"process": "closed", "concurrency": 16}])
def test_every_token_of_prompts_and_answers_is_processed_once(framework, arrival):
    scenario = disaggregated(framework, arrival=arrival, output_tokens={"distribution": "uniform", "min": 1, "max": 90})
    out = server_of(scenario).serve(scenario)
    assert (out.status == COMPLETED).all()
    output, iterations, moved = out.requests.output_tokens, out.iterations, out.transfers
    assert out.gap_counts.sum() == (output - 1).sum()
    assert iterations.prompt_tokens.sum() == (out.requests.prompt_tokens - out.cached_tokens).sum()
    prefilling = iterations.replica < 2
    assert (iterations.decodes[prefilling] == 0).all()
    assert (iterations.prompt_tokens[~prefilling] == 0).all()
    several = output > 1
    assert (out.replica >= 2).tolist() == several.tolist()
    assert np.isin(moved.replica[several], [0, 1]).all()
    assert (out.scheduled_s <= out.first_token_s).all()
    assert (moved.prefilled_s < moved.ready_s)[several].all()
    assert (moved.ready_s <= out.first_token_s)[several].all()


@pytest.mark.parametrize(("framework", "steps"), [("vllm", 10), ("sglang", 9)])
def test_a_request_alone_takes_its_prompt_its_transfer_and_its_decode_steps(framework, steps):
    scenario = disaggregated(framework)
    server = server_of(scenario)
    prompt, output = 1500, 10
    out = server.serve(scenario, [requests([prompt], [output])])
    prefill, decode = (packed(pool.times) for pool in server.pools)
    prefill_s = step_seconds(prefill, 0, 0, prompt, 1, prompt_attention_seconds(prefill, prompt, 0))
    model = scenario.model
    cached = model.layers * 2 * model.kv_heads * model.head_dim * 2 * prompt
    transfer_s = cached / scenario.cluster.network.bandwidth_per_node
    first = prompt - 1 if framework == "vllm" else prompt
    decode_s = sum(step_seconds(decode, 1, first + i, 0, 0, 0.0) for i in range(steps))
    before_s = server.pools[0].times.request_s
    assert out.last_token_s[0] == pytest.approx(before_s + prefill_s + transfer_s + decode_s, rel=1e-9)
    assert out.transfers.ready_s[0] == pytest.approx(before_s + prefill_s + transfer_s, rel=1e-9)


def test_replicas_of_a_node_send_one_request_after_the_other():
    scenario = disaggregated()
    moved = server_of(scenario).serve(scenario, [requests([700] * 8, [2] * 8)]).transfers
    order = np.argsort(moved.ready_s)
    alone_s = (moved.ready_s - moved.prefilled_s).min()
    assert (np.diff(moved.ready_s[order]) >= alone_s * (1 - 1e-9)).all()


def test_what_either_pool_cannot_hold_is_refused():
    scenario = disaggregated()
    server = server_of(scenario)
    small = tuple(of.with_blocks(200 if of.plan.role == DECODE else 100) for of in server.pools)
    load = requests([1000, 2000, 1000], [100, 100, 2300])
    out = replace(server, pools=small).serve(scenario, [load])
    assert out.status.tolist() == [COMPLETED, NO_ROOM, NO_ROOM]


def test_a_full_cache_of_the_pool_that_decodes_lets_requests_wait():
    scenario = disaggregated(arrival={"process": "all_at_once"}, output_tokens=200)
    server = server_of(scenario)
    tight = tuple(of if of.plan.role == PREFILL else of.with_blocks(300) for of in server.pools)
    free, held = (of.serve(scenario) for of in (server, replace(server, pools=tight)))
    assert (held.status == COMPLETED).all()
    assert held.gap_counts.sum() == (held.requests.output_tokens - 1).sum()
    assert held.last_token_s.max() > 1.5 * free.last_token_s.max()
    capacity = held.kv_capacity_tokens[held.iterations.replica]
    assert (held.iterations.kv_tokens <= capacity).all()


def test_a_profile_tells_of_both_pools_and_of_the_transfer():
    profile = simulate(disaggregated(), intervals=False)
    assert set(profile.pools) == {"prefill", "decode"}
    assert profile.pools["decode"]["busy"] > profile.pools["prefill"]["busy"]
    assert profile.transfer_s == pytest.approx(profile.phases["transfer"])
    assert sum(profile.phases.values()) == pytest.approx(profile.latency_s["mean"])
    assert sum(profile.limits.values()) == pytest.approx(profile.latency_s["mean"])


def test_the_fullest_kind_of_devices_says_whether_all_fits():
    profile = simulate(serving(cluster=UNLIKE, plan={"tensor_parallel": 1}), intervals=False)
    assert profile.fits
    assert profile.memory_bytes["total"] <= profile.usable_bytes
    assert set(profile.pools) == {"h100-sxm-80gb", "a100-sxm-80gb"}


def test_long_loads_add_up_to_the_same():
    scenario = disaggregated()
    whole, streamed = (simulate(scenario, intervals=False, streamed=of) for of in (False, True))
    for name, pool in whole.pools.items():
        assert streamed.pools[name]["busy"] == pytest.approx(pool["busy"])
    assert streamed.transfer_s == pytest.approx(whole.transfer_s)


def test_prompts_that_a_replica_takes_at_once_are_limited():
    pools = {"prefill": {"replicas": 2, "batch": 1}, "decode": {"replicas": 2}}
    scenario = disaggregated(pools=pools, arrival={"process": "all_at_once"})
    iterations = server_of(scenario).serve(scenario).iterations
    assert iterations.running[iterations.replica < 2].max() == 1


@pytest.mark.parametrize("router", ["round-robin", "least-load", "weighted", "precise-prefix"])
def test_faster_replicas_get_more_requests(router):
    arrival = {"process": "poisson", "rate": 60.0}
    scenario = serving(cluster=UNLIKE, count=1000, arrival=arrival, plan={"router": router, "tensor_parallel": 1})
    server = server_of(scenario)
    out = server.serve(scenario)
    assert (out.status == COMPLETED).all()
    assert out.gap_counts.sum() == (out.requests.output_tokens - 1).sum()
    each = np.bincount(out.replica, minlength=4)
    assert each[:2].sum() > 1.2 * each[2:].sum()
    if router == "round-robin":
        fast, slow = (pool.facts.speed for pool in server.deployment(scenario).pools)
        assert each[0] / each[2] == pytest.approx(fast / slow, rel=0.02)


def test_a_router_that_knows_the_caches_keeps_conversations_together_and_loads_even():
    asked = {"sessions": {"turns": 6}, "count": 900, "prompt_tokens": 600, "output_tokens": 80}
    arrival = {"process": "poisson", "rate": 30, "think_time": 2}
    found = {}
    for router in ("round-robin", "least-load", "precise-prefix"):
        plan = {"router": router, "replicas": 4, "tensor_parallel": 1}
        scenario = serving(cluster="4x h100-sxm-80gb", arrival=arrival, plan=plan, **asked)
        found[router] = server_of(scenario).serve(scenario)
    hits = {router: out.cached_tokens.sum() / out.requests.prompt_tokens.sum() for router, out in found.items()}
    assert hits["precise-prefix"] > 1.3 * max(hits["round-robin"], hits["least-load"])
    work = np.bincount(found["precise-prefix"].replica, minlength=4)
    assert work.max() < 1.5 * work.min()


def test_each_kind_of_devices_has_its_own_times_and_cache():
    scenario = serving(cluster=UNLIKE, plan={"tensor_parallel": 1})
    server = server_of(scenario)
    fast, slow = server.pools
    assert fast.room.memory_bytes["total"] <= fast.usable_bytes
    for of in (fast, slow):
        alone = replace(server, pools=(of,)).serve(scenario, [requests([900], [20])])
        own = server_of(serving(cluster=f"1x {of.plan.name}")).serve(scenario, [requests([900], [20])])
        assert alone.last_token_s == pytest.approx(own.last_token_s)


def test_either_kind_may_prefill_unless_the_plan_says_which():
    pools = {"prefill": {"replicas": 2}, "decode": {"replicas": 2}}
    open_ = serving(cluster=UNLIKE, plan={"disaggregate": pools})
    with pytest.raises(InputError, match=r"plan\.disaggregate\.prefill\.device is missing.*h100.* or a100"):
        server_of(open_)
    named = {**pools, "prefill": {"replicas": 2, "device": "a100-sxm-80gb"}}
    scenario = serving(cluster=UNLIKE, plan={"disaggregate": named})
    devices = [of.plan.scenario.cluster.device.name for of in server_of(scenario).pools]
    assert devices == ["a100-sxm-80gb", "h100-sxm-80gb"]


def test_policies_without_such_workers_are_refused():
    with pytest.raises(InputError, match="disaggregat"):
        server_of(disaggregated("vllm", plan={"framework_version": "0.6"}))
