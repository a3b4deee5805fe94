"""Context parallelism as a rewrite of the program: ranks do the work of one together, degree 1 adds nothing."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_scenarios import training

from sightline.program import Collective, FlashAttention, Operator, Program, write_out
from sightline.program.kernels import training_kernels
from sightline.program.techniques.context_parallel import head_ranks
from sightline.scenario import Scenario

EXCHANGES = ["ring", "all-gather", "all-to-all", "mixed"]
MODELS = ["llama-3-8b", "gpt-3-175b", "deepseek-v2-lite"]
TOKENS = 16384


def cut(c: int, exchange: str, *, model: Any = "llama-3-8b", t: int = 1, **plan: Any) -> Scenario:
    return training(
        model=model,
        cluster=f"{c * t}x h100-sxm-80gb",
        sequence_length=TOKENS,
        global_batch=2,
        plan={
            "context_parallel": c,
            "context_exchange": exchange,
            "tensor_parallel": t,
            "micro_batch": 2,
            **plan,
        },
    )


def operators(program: Program) -> list[Operator]:
    return [op for block in program.blocks for op in (*block.forward, *block.backward, *block.recomputed)]


def core(program: Program, *, backward: bool = False) -> list[FlashAttention]:
    layer = program.layers[0]
    return [op for op in (layer.backward if backward else layer.forward) if isinstance(op, FlashAttention)]


def sent(scenario: Scenario, kind: str, *, backward: bool = False) -> float:
    layer = write_out(scenario).layers[0]
    found = [op for op in (layer.backward if backward else layer.forward) if isinstance(op, Collective)]
    return float(sum(op.count * op.network_bytes for op in found if op.kind == kind and op.ranks != "tensor"))


@given(st.sampled_from(MODELS), st.sampled_from(EXCHANGES), st.sampled_from(["flash", "eager"]))
def test_one_rank_exchanges_nothing(model, exchange, attention):
    plain, other = (write_out(cut(1, word, model=model, attention=attention)) for word in ("ring", exchange))
    pairs = list(zip(operators(plain), operators(other), strict=True))
    assert not any(isinstance(op, Collective) for op, _ in pairs)
    for one, same in pairs:
        assert type(one) is type(same)
        assert all(getattr(one, f.name) == getattr(same, f.name) for f in fields(one))
    assert [block.transient_bytes for block in plain.blocks] == [block.transient_bytes for block in other.blocks]


@given(
    st.sampled_from(MODELS),
    st.sampled_from(EXCHANGES),
    st.sampled_from([2, 4, 8, 16]),
    st.sampled_from([1, 2]),
    st.sampled_from(["none", "selective", "full"]),
)
def test_the_ranks_of_a_sequence_do_the_work_of_one_together(model, exchange, c, t, recompute):
    if model == "deepseek-v2-lite" and t * c > 16:
        return
    whole = write_out(cut(1, "ring", model=model, t=t, recompute=recompute))
    part = write_out(cut(c, exchange, model=model, t=t, recompute=recompute))
    for one, share in zip(whole.blocks, part.blocks, strict=True):
        for of in ("forward", "backward", "recomputed"):
            flops = [sum(op.count * op.flops for op in getattr(block, of)) for block in (one, share)]
            assert c * flops[1] == pytest.approx(flops[0], rel=1e-9)


@given(st.sampled_from(EXCHANGES), st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_every_visible_score_is_computed_once(exchange, c, backward):
    """Half the square of the sequence and its diagonal, whatever is cut how."""
    x = training_kernels(cut(c, exchange))

    def seen(op: FlashAttention) -> Any:
        keys = op.context_tokens - op.causal * (op.query_tokens - 1) / 2
        return op.count * op.batch * op.heads * op.query_tokens * keys

    computed = c * sum(seen(op) for op in core(write_out(cut(c, exchange)), backward=backward))
    assert computed == pytest.approx(x.b * x.shape.heads * TOKENS * (TOKENS + 1) / 2, rel=1e-9)


@given(st.sampled_from(EXCHANGES), st.sampled_from([2, 4, 8]))
def test_each_rank_keeps_its_share_of_the_activations(exchange, c):
    whole, part = (write_out(cut(n, exchange)).layers[0] for n in (1, c))
    assert c * part.saved_bytes == pytest.approx(whole.saved_bytes, rel=1e-9)


@pytest.mark.parametrize("c", [2, 4, 8])
def test_what_is_exchanged_has_the_size_of_the_key_heads(c):
    block = 2.0 * 2 * TOKENS / c * 2 * 8 * 128  # bytes, sequences, tokens, keys and values, heads of 128
    queries = 2.0 * 2 * TOKENS / c * 32 * 128
    assert sent(cut(c, "ring"), "send_recv") == (c - 1) * block
    # Gradients of keys and values travel with them, and one hop more.
    assert sent(cut(c, "ring"), "send_recv", backward=True) == 2 * (c - 1) * block + block
    assert sent(cut(c, "all-gather"), "all_gather") == c * block
    assert sent(cut(c, "all-gather"), "reduce_scatter", backward=True) == c * block
    for backward in (False, True):
        assert sent(cut(c, "all-to-all"), "all_to_all", backward=backward) == 2 * queries + block


def test_key_heads_that_are_fewer_than_the_ranks_go_to_several():
    wide = cut(16, "all-to-all")
    tokens = 2.0 * 2 * TOKENS / 16
    assert sent(wide, "all_to_all") == tokens * (2 * 32 + 2 * 16) * 128
    assert {op.kv_heads for op in core(write_out(wide))} == {1.0}


@pytest.mark.parametrize(("t", "c", "shared"), [(1, 2, 2), (1, 8, 8), (1, 16, 8), (2, 16, 4), (4, 8, 2), (8, 8, 1)])
def test_a_mixed_exchange_shares_heads_inside_a_node_and_rings_around_nodes(t, c, shared):
    scenario = cut(c, "mixed", t=t)
    assert head_ranks(scenario.plan, scenario.model, scenario.cluster.per_node) == shared
    ranks = {op.ranks for op in operators(write_out(scenario)) if isinstance(op, Collective) and np.all(op.count > 0)}
    assert ("context ring" in ranks) == (shared < c)
    assert ("context heads" in ranks) == (shared > 1)


@pytest.mark.parametrize("exchange", ["all-gather", "all-to-all"])
def test_windows_are_cut_too(exchange):
    flops = [
        sum(c * op.count * op.flops for op in operators(write_out(cut(c, exchange, model="mistral-7b-v0.1"))))
        for c in (1, 4)
    ]
    assert flops[1] == pytest.approx(flops[0], rel=1e-9)


@given(st.sampled_from(EXCHANGES), st.sampled_from(["none", "selective", "full"]))
def test_degrees_along_an_axis_write_out_what_each_writes_out(exchange, recompute):
    degrees = np.array([1, 2, 8])
    scenario = cut(8, exchange, recompute=recompute)
    mesh = write_out(replace(scenario, plan=replace(scenario.plan, context_parallel=degrees)))
    for i, c in enumerate(degrees):
        alone = write_out(replace(scenario, plan=replace(scenario.plan, context_parallel=int(c))))
        for many, one in zip(mesh.blocks, alone.blocks, strict=True):
            for attribute in ("saved_bytes", "working_bytes", "transient_bytes"):
                picked = np.broadcast_to(getattr(many, attribute), 3)[i]
                assert picked == pytest.approx(getattr(one, attribute), rel=1e-12)
            for of in ("forward", "backward"):
                totals = [sum(op.count * op.bytes for op in getattr(block, of)) for block in (many, one)]
                assert np.broadcast_to(totals[0], 3)[i] == pytest.approx(totals[1], rel=1e-12)


TITAN = {"framework": "torchtitan", "zero_stage": 3}


@given(st.sampled_from(["ring", "all-gather"]), st.sampled_from([2, 4, 8]), st.booleans(), st.booleans())
def test_blocks_joined_in_fp32_do_the_work_of_one_rank_together(exchange, c, backward, compiled):
    whole, part = (write_out(cut(n, exchange, compile=compiled, **TITAN)) for n in (1, c))
    for of in ("forward", "backward"):
        flops = [sum(op.count * op.flops for op in getattr(p.layers[0], of)) for p in (whole, part)]
        assert c * flops[1] == pytest.approx(flops[0], rel=1e-9)
    names = {op.name for op in core(part, backward=backward)}
    assert len(names) == 3  # Own keys, earlier ones, and all keys for later queries: also where keys are gathered.


@pytest.mark.parametrize("c", [2, 4, 8])
def test_repeated_heads_travel_and_gradients_do_so_in_fp32(c):
    block = 2.0 * 2 * TOKENS / c * 2 * 32 * 128  # bytes, sequences, tokens, keys and values, query heads of 128
    gathers, ring = (cut(c, exchange, **TITAN) for exchange in ("all-gather", "ring"))
    assert sent(gathers, "all_gather") == sent(gathers, "all_gather", backward=True) == c * block
    assert sent(ring, "send_recv") == (c - 1) * block
    # Gradients make a hop more than keys and values, in twice the bytes.
    assert sent(gathers, "send_recv", backward=True) == 2 * c * block
    assert sent(ring, "send_recv", backward=True) == (c - 1) * block + 2 * c * block


@pytest.mark.parametrize("exchange", ["ring", "all-gather"])
def test_a_compiled_graph_waits_for_keys_at_once(exchange):
    def beside(compiled: bool) -> set[str]:
        found = operators(write_out(cut(4, exchange, compile=compiled, **TITAN)))
        return {op.overlapped_with for op in found if isinstance(op, Collective)}

    assert beside(True) == {"nothing"}
    assert "attention" in beside(False)


@pytest.mark.parametrize("exchange", ["ring", "all-gather"])
def test_degrees_along_an_axis_join_in_fp32_as_each_does(exchange):
    degrees = np.array([1, 2, 8])
    scenario = cut(8, exchange, recompute="full", **TITAN)
    mesh = write_out(replace(scenario, plan=replace(scenario.plan, context_parallel=degrees))).layers[0]
    for i, c in enumerate(degrees):
        alone = write_out(replace(scenario, plan=replace(scenario.plan, context_parallel=int(c)))).layers[0]
        assert np.broadcast_to(mesh.transient_bytes, 3)[i] == pytest.approx(alone.transient_bytes, rel=1e-12)
        for of in ("forward", "backward", "recomputed"):
            for total in ("bytes", "network_bytes", "kernels"):
                sums = [sum(op.count * getattr(op, total) for op in getattr(block, of)) for block in (mesh, alone)]
                assert np.broadcast_to(sums[0], 3)[i] == pytest.approx(sums[1], rel=1e-12)


def test_heads_are_repeated_only_where_several_queries_share_them():
    def repeated(model: str) -> list[Operator]:
        return [op for op in operators(write_out(cut(1, "ring", model=model, **TITAN))) if "heads" in op.name]

    assert [op.name for op in repeated("llama-3-8b")] == ["heads repeated", "heads repeated gradient"]
    assert repeated("gpt-3-175b") == []
    tokens = 2.0 * TOKENS
    # 8 heads in, 32 out, of keys and of values.
    assert [op.bytes for op in repeated("llama-3-8b")] == [2.0 * tokens * 2 * (8 + 32) * 128] * 2
