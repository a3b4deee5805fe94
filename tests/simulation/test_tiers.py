"""Memories behind the prefix cache: what they find again, and what that takes."""

import numpy as np
import pytest

import sightline as sl
from sightline.simulation.deployment import tiers_of
from sightline.simulation.load import Requests

GB_PER_S = 1e9


def _profile(tiers=(), streamed=None, cluster="1x h100-sxm-80gb", **plan):
    """Conversations whose keys and values exceed a small cache on the device."""
    scenario = sl.load(
        {
            "model": "llama-3.1-8b",
            "cluster": cluster,
            "workload": {
                "task": "serve",
                "requests": {"count": 300, "prompt_tokens": 400, "output_tokens": 60},
                "sessions": {"turns": 6, "prefix_tokens": 200},
                "arrival": {"process": "poisson", "rate": 8, "think_time": 5},
            },
            "plan": {"framework": "vllm", "memory_fraction": 0.26, "kv_tiers": list(tiers), **plan},
        }
    )
    return sl.simulate(scenario, intervals=False, streamed=streamed)


def _host(size=1e12, bandwidth=50 * GB_PER_S, **more):
    return {"bytes": size, "bandwidth": bandwidth, **more}


@pytest.fixture(scope="module")
def without():
    return _profile()


@pytest.mark.parametrize("framework", ["vllm", "sglang", "tensorrt-llm"])
def test_a_large_tier_finds_more_and_answers_sooner(framework):
    without, tiered = _profile(framework=framework), _profile([_host()], framework=framework)
    assert tiered.prefix_hit_rate > without.prefix_hit_rate
    assert tiered.ttft_s["mean"] < without.ttft_s["mean"]
    assert 0 < tiered.kv_tiers["host"]["hit_rate"] < tiered.prefix_hit_rate
    assert tiered.kv_tiers["host"]["load_s"] > 0


def test_a_tier_without_room_for_a_block_changes_nothing(without):
    small = _profile([_host(size=1)])
    assert small.kv_tiers == {"host": {"hit_rate": 0.0, "load_s": 0.0}}
    assert small.ttft_s == without.ttft_s
    assert small.latency_s == without.latency_s
    assert without.kv_tiers is None
    assert any("host has no effect" in warning for warning in small.warnings)


def test_a_slow_link_is_waited_for():
    fast, slow = _profile([_host()]), _profile([_host(bandwidth=GB_PER_S, latency=0.001)])
    assert slow.kv_tiers["host"]["load_s"] > fast.kv_tiers["host"]["load_s"]
    assert slow.ttft_s["mean"] > fast.ttft_s["mean"]


def test_what_a_full_tier_evicts_is_found_in_the_next(without):
    host = _host(size=2e9)
    one, two = _profile([host]), _profile([host, _host(bandwidth=5 * GB_PER_S, name="disk")])
    assert without.prefix_hit_rate <= one.prefix_hit_rate < two.prefix_hit_rate
    assert two.kv_tiers["disk"]["hit_rate"] > 0


def test_a_streamed_load_tells_the_same(without):
    rows, streamed = _profile([_host()]), _profile([_host()], streamed=True)
    assert streamed.kv_tiers == rows.kv_tiers
    assert rows.prefix_hit_rate > without.prefix_hit_rate


def test_ranks_share_capacity_and_bandwidth():
    plan = sl.load(
        {
            "model": "llama-3.1-8b",
            "cluster": "4x h100-sxm-80gb",
            "workload": {"task": "serve", "requests": {"count": 10, "prompt_tokens": 100, "output_tokens": 10}},
            "plan": {
                "framework": "vllm",
                "tensor_parallel": 2,
                "data_parallel": 2,
                "kv_tiers": [{"tokens": 1600, "bandwidth": 4e6}, {"bytes": 8e6, "bandwidth": 4e6, "latency": 0.1}],
            },
        }
    ).plan
    host, other = tiers_of(plan, 1e6, 10)
    assert (host.blocks, other.blocks) == (50, 2)
    assert host.block_s == other.block_s == pytest.approx(1.0)
    assert (host.name, other.name, other.latency_s) == ("host 1", "host 2", 0.1)


def test_replicas_find_in_a_pool_what_others_computed():
    pooled = {"shared": "all", "write": "through"}
    alone, together = (_profile([_host(**more)], cluster="2x h100-sxm-80gb", replicas=2) for more in ({}, pooled))
    assert together.prefix_hit_rate > alone.prefix_hit_rate + 0.05
    assert together.kv_tiers["host"]["hit_rate"] > alone.kv_tiers["host"]["hit_rate"]


def _answered(tier, replicas=4, late_s=10.0):
    """A prompt, and later the same one for each replica."""
    plan = {"framework": "vllm", "replicas": replicas, "kv_block_tokens": 16, "kv_tiers": [tier]}
    requests = {"count": 1, "prompt_tokens": 1, "output_tokens": 1}
    workload = {"task": "serve", "requests": requests, "arrival": {"process": "all_at_once"}}
    cluster = f"{replicas}x h100-sxm-80gb"
    scenario = sl.load({"model": "llama-3.1-8b", "cluster": cluster, "workload": workload, "plan": plan})
    each = np.ones(1 + replicas, np.int64)
    load = Requests(
        arrival_s=np.array([0.0, *[late_s] * replicas]),
        prompt_tokens=8208 * each,
        output_tokens=each,
        prefix_id=0 * each,
        prefix_tokens=8208 * each,
    )
    return sl.simulate(scenario, load=[load], intervals=False)


def test_who_shares_a_link_waits_for_the_others():
    load_s = 8192 * 131072 / GB_PER_S
    tier = _host(bandwidth=GB_PER_S, write="through")
    pooled, node = (_answered({**tier, "shared": shared}).kv_tiers["host"] for shared in ("all", "node"))
    # The replica that computed the prompt has it; the three others load it one after the other.
    assert pooled == node
    assert pooled["hit_rate"] == pytest.approx(3 / 5 * 8192 / 8208)
    assert pooled["load_s"] == pytest.approx((1 + 2 + 3) * load_s / 5)
    assert _answered(tier).kv_tiers["host"]["hit_rate"] == 0
    # Computing it takes about 0.3 s: the first load is faster on a link that takes 0.2 s, the others are not.
    fast = {**tier, "shared": "all", "bandwidth": 5 * load_s * GB_PER_S, "fetch": "faster"}
    assert _answered(fast).kv_tiers["host"]["hit_rate"] == pytest.approx(1 / 5 * 8192 / 8208)


def test_what_is_slower_to_load_is_computed(without):
    slow, fast = (_profile([_host(bandwidth=rate, fetch="faster")]) for rate in (1e6, 50 * GB_PER_S))
    assert slow.ttft_s == without.ttft_s
    assert slow.kv_tiers["host"]["hit_rate"] == 0
    assert fast.kv_tiers == _profile([_host()]).kv_tiers


def test_what_is_prefetched_comes_while_a_request_waits():
    load_s = 8192 * 131072 / (5 * GB_PER_S)
    host = _host(bandwidth=1e6 * GB_PER_S, name="host")
    pool = _host(bandwidth=5 * GB_PER_S, name="pool", shared="all", write="through")
    # The second replica is busy with a long prompt when one comes that the first had.
    load = Requests(
        arrival_s=np.array([0.0, 19.999, 20.0, 20.001]),
        prompt_tokens=np.array([8208, 16384, 8208, 8208]),
        output_tokens=np.ones(4, np.int64),
        prefix_id=np.array([0, -1, 0, 0]),
        prefix_tokens=np.array([8208, 0, 8208, 8208]),
    )
    late, early = (_ttft_s([host, {**pool, "prefetch": prefetch}], load) for prefetch in (False, True))
    assert late - early == pytest.approx(load_s, rel=0.05)


def _ttft_s(tiers, load):
    workload = {"task": "serve", "requests": {"count": 1, "prompt_tokens": 1, "output_tokens": 1}}
    plan = {"framework": "vllm", "replicas": 2, "kv_tiers": tiers}
    scenario = sl.load({"model": "llama-3.1-8b", "cluster": "2x h100-sxm-80gb", "workload": workload, "plan": plan})
    rows = []
    sl.simulate(scenario, load=[load], intervals=False, streamed=True, rows=lambda n, out: rows.append((n, out)))
    return max(out.first_token_s[i] - out.requests.arrival_s[i] for n, out in rows for i in range(len(n)) if n[i] == 3)
