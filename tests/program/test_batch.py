"""Mixed batches: one group is a prefill or a step of decoding, several add up, and attention runs group by group."""

from dataclasses import replace

import pytest
from generation_scenarios import generation

from sightline import catalog
from sightline.prediction.generation.phases import price_generation
from sightline.program import (
    Batch,
    CachedAttention,
    Collective,
    GroupedMatmul,
    Matmul,
    Operator,
    Program,
    decoding,
    inference_kernels,
    prompts,
    write,
)
from sightline.program.mixer_operators import GatedDelta, Indexer, SelectedAttention, ShortConvolution, StateSpaceScan

PER_SEQUENCE = (CachedAttention, SelectedAttention, Indexer, GatedDelta, StateSpaceScan, ShortConvolution)
CHUNK, STEP = prompts(2.0, 300.0, 100.0), decoding(7.0, 900.0)


def written(model: str, *groups, **plan) -> Program:
    plan = {"quantization": "none", "dtype": "bf16"} | plan
    priced = price_generation(generation(model=model, cluster="8x b200-sxm-180gb", plan=plan))
    return write(inference_kernels(priced.scenario, priced.worker.formats, Batch.of(*groups)))


def of_layers(program: Program, *kinds: type[Operator]) -> list[tuple[int, Operator]]:
    return [(b.count, op) for b in program.layers for op in b.operators if isinstance(op, kinds)]


def fields(program: Program) -> list[list[object]]:
    return [
        [getattr(op, name) for cls in type(op).__mro__[:-1] for name in getattr(cls, "__slots__", ())]
        for block in program.blocks
        for op in block.operators
    ]


@pytest.mark.parametrize(
    "model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "deepseek-v3.2", "nemotron-3-nano-30b-a3b"]
)
def test_a_batch_of_one_group_is_the_prefill_or_the_step(model):
    priced = price_generation(generation(model=model, cluster="8x b200-sxm-180gb"))
    for x, program in ((one.kernels, one.program) for one in (priced.prefill, priced.decode)):
        alone = write(inference_kernels(priced.scenario, priced.worker.formats, Batch.of(x.group)))
        assert fields(alone) == fields(program)


@pytest.mark.parametrize("model", catalog.names("models"))
def test_groups_run_apart_where_sequences_matter_and_together_elsewhere(model):
    mixed, chunk, step = (written(model, *groups) for groups in ((CHUNK, STEP), (CHUNK,), (STEP,)))
    for size in ("flops", "bytes"):
        apart = [
            sum(float(count * op.count * getattr(op, size)) for count, op in of_layers(p, *PER_SEQUENCE))
            for p in (mixed, chunk, step)
        ]
        assert apart[0] == pytest.approx(apart[1] + apart[2], rel=1e-12)
    flops = [
        sum(float(count * op.count * op.flops) for count, op in of_layers(p, Matmul, GroupedMatmul))
        for p in (mixed, chunk, step)
    ]
    assert flops[0] == pytest.approx(flops[1] + flops[2], rel=1e-9)


def test_weights_are_read_once_for_all_groups():
    mixed, chunk, step = (written("llama-3.1-8b", *groups) for groups in ((CHUNK, STEP), (CHUNK,), (STEP,)))
    (products, of_chunk, of_step) = ([op for _, op in of_layers(p, Matmul)] for p in (mixed, chunk, step))
    assert len(products) == len(of_chunk) == len(of_step)
    for together, one, other in zip(products, of_chunk, of_step, strict=True):
        assert together.m == one.m + other.m == 2 * 300 + 7
        weights = together.weight_bytes * together.n * together.k
        assert together.bytes == pytest.approx(one.bytes + other.bytes - weights)
    assert [op.decode for _, op in of_layers(mixed, CachedAttention)] == [False, True]


def test_latent_vectors_are_expanded_for_prompts_and_absorbed_for_decoding():
    mixed = written("deepseek-v3", CHUNK, STEP)
    parts = {op.part: op.m for _, op in of_layers(mixed, Matmul)}
    assert (parts["key, value up"], parts["absorb query"], parts["expand value"]) == (2 * 400, 7, 7)
    kinds = {op.shared_kv for _, op in of_layers(mixed, CachedAttention)}
    assert kinds == {False, True}


def test_only_the_last_token_of_a_prompt_wants_logits():
    head = {op.part: op for op in written("llama-3.1-8b", CHUNK, decoding(7.0, 900.0, 3.0)).head.operators}
    assert head["logits"].m == 2 + 7 * 3


def test_ranks_exchange_the_tokens_of_all_groups_at_once():
    mixed = written("llama-3.1-8b", CHUNK, STEP, tensor_parallel=4)
    sums = [op for _, op in of_layers(mixed, Collective)]
    assert [(op.kind, op.buffer_bytes) for op in sums] == [("all_reduce", 2.0 * 607 * 4096)] * 2


def test_a_group_counts_like_several():
    one, three = written("qwen3-30b-a3b", STEP), written("qwen3-30b-a3b", *(replace(STEP, count=n) for n in (1, 2, 4)))
    for size in ("flops", "bytes"):
        sums = [sum(float(n * op.count * getattr(op, size)) for n, op in of_layers(p, Operator)) for p in (one, three)]
        assert sums[0] == pytest.approx(sums[1], rel=1e-12)
