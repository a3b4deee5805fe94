"""Mixers beyond softmax attention in training: work is shared out, nothing is lost, absent parts add nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from training_scenarios import training

from sightline.errors import InputError
from sightline.loading.models import resolve_model
from sightline.prediction import predict
from sightline.prediction.training.priced import price
from sightline.prediction.training.step import step_times
from sightline.program import Block, Collective, Operator, write_out
from sightline.program.attention_core import mean_seen
from sightline.program.blocks.attention import CompressedSoftmaxAttention, MultiHeadLatentAttention, SoftmaxAttention
from sightline.program.blocks.layer import NoMixer, mixer_of
from sightline.program.blocks.recurrent import AttentionBesideStates, ConvolutionMixer, GatedDeltaNet, Mamba2
from sightline.program.mixer_operators import GatedDelta, Indexer, SelectedAttention, StateSpaceScan
from sightline.scenario import LayerKind, Scenario
from sightline.scenario.blocks import Mixer

HYBRIDS = ("qwen3-next-80b-a3b", "nemotron-h-56b-base-8k", "nemotron-3-nano-30b-a3b")
OTHERS = ("deepseek-v3.2", "deepseek-v4-flash", "minimax-m3", "gemma-3-27b")


MIXER_CLASSES = {
    "attention": ("llama-3-8b", SoftmaxAttention),
    "sliding": ("gemma-3-27b", SoftmaxAttention),
    "chunked": ("llama-4-scout-17b-16e", SoftmaxAttention),
    "latent": ("deepseek-v3", MultiHeadLatentAttention),
    "sparse": ("deepseek-v3.2", MultiHeadLatentAttention),
    "compressed": ("deepseek-v4-flash", CompressedSoftmaxAttention),
    "linear": ("qwen3-next-80b-a3b", GatedDeltaNet),
    "state-space": ("nemotron-h-56b-base-8k", Mamba2),
    "side-by-side": ("falcon-h1-7b", AttentionBesideStates),
    "convolution": ("lfm2-1.2b", ConvolutionMixer),
    "none": ("nemotron-h-56b-base-8k", NoMixer),
}


@pytest.mark.parametrize("mixer", get_args(Mixer))
def test_every_word_for_a_mixer_reaches_its_class(mixer: Mixer) -> None:
    name, expected = MIXER_CLASSES[mixer]
    model = resolve_model(name, Path()).model
    assert mixer in {kind.mixer for kind in model.kinds}
    assert type(mixer_of(model, LayerKind(mixer=mixer, count=1))) is expected


@pytest.mark.parametrize("mixer", ["latent", "compressed", "linear", "state-space"])
def test_layers_without_their_figures_are_no_softmax_attention(mixer: Mixer) -> None:
    model = resolve_model("llama-3-8b", Path()).model
    with pytest.raises(ValueError, match=f"does not define its {mixer} layers"):
        mixer_of(model, LayerKind(mixer=mixer, count=1))


def test_sparse_layers_without_latent_attention_are_softmax_attention() -> None:
    model = resolve_model("minimax-m3", Path()).model
    assert type(mixer_of(model, LayerKind(mixer="sparse", count=1))) is SoftmaxAttention


def layers(model: str | dict[str, Any], devices: int = 8, length: int = 4096, **plan: Any) -> tuple[Block, ...]:
    scenario = training(
        model=model,
        cluster=f"{devices}x h100-sxm-80gb",
        global_batch=64,
        sequence_length=length,
        plan={"micro_batch": 1, **plan},
    )
    return write_out(scenario).layers


def operators(blocks: tuple[Block, ...]) -> list[Operator]:
    return [op for block in blocks for op in (*block.forward, *block.backward)]


def flops(blocks: tuple[Block, ...]) -> float:
    return sum(float(block.count * op.count * op.flops) for block in blocks for op in operators((block,)))


@pytest.mark.parametrize("name", [*HYBRIDS, *OTHERS, "lfm2-1.2b", "minimax-text-01"])
def test_tensor_parallel_ranks_share_the_work(name: str) -> None:
    alone, shared = layers(name), layers(name, tensor_parallel=4, expert_parallel=1)
    # What every rank does whole are routers, indexers and projections to latent vectors.
    assert 0.2 * flops(alone) < flops(shared) < 0.45 * flops(alone)


@pytest.mark.parametrize("name", HYBRIDS)
def test_context_parallel_ranks_bring_sequences_together_for_states(name: str) -> None:
    alone, cut = layers(name), layers(name, context_parallel=2)
    assert not [op for op in operators(alone) if isinstance(op, Collective)]
    scans = [[op for op in operators(x) if isinstance(op, GatedDelta | StateSpaceScan)] for x in (alone, cut)]
    for whole, half in zip(*scans, strict=True):
        assert half.flops == pytest.approx(whole.flops / 2)
        assert half.new_tokens == whole.new_tokens  # type: ignore[attr-defined]
    exchanges = [op for op in operators(cut) if isinstance(op, Collective) and op.ranks == "context"]
    assert sum(op.kind == "all_to_all" for op in exchanges) == 2 * len(scans[0])


@pytest.mark.parametrize("name", HYBRIDS)
def test_time_and_memory_of_states_grow_with_the_tokens_and_not_their_square(name: str) -> None:
    short, long = (
        sum(float(op.flops) for op in operators(layers(name, length=n)) if isinstance(op, GatedDelta | StateSpaceScan))
        for n in (4096, 16384)
    )
    assert long == pytest.approx(4 * short)


def test_selected_tokens_bound_the_attention_and_the_indexer_learns() -> None:
    short, long = (layers("deepseek-v3.2", length=n) for n in (2048, 65536))
    read = [
        max(float(np.max(op.selected_tokens)) for op in operators(x) if isinstance(op, SelectedAttention))
        for x in (short, long)
    ]
    # A short sequence reads half of it in the mean, a long one nearly all that may be selected.
    assert read[0] == pytest.approx(1024)
    assert 2000 < read[1] < 2048
    assert {op.backward for op in operators(long) if isinstance(op, Indexer)} == {False, True}


def test_the_mean_of_what_queries_see() -> None:
    seen = np.minimum(np.arange(100_000) + 0.5, 3000).mean()
    assert mean_seen(100_000.0, 3000.0) == pytest.approx(seen, rel=1e-6)


def test_streams_are_kept_and_handed_on() -> None:
    one, four = (layers({"same_as": "deepseek-v4-flash", "hc_mult": n}, recompute="full")[0] for n in (1, 4))
    assert four.saved_bytes == pytest.approx(4 * one.saved_bytes)
    assert not [op for op in operators((one,)) if "stream" in op.name]


def test_a_second_norm_around_each_block_is_one_more_of_each_pass() -> None:
    (two,), (four,) = (
        layers(
            {
                "model_type": "transformer",
                "hidden_size": 1024,
                "num_hidden_layers": 2,
                "num_attention_heads": 8,
                "vocab_size": 1000,
                "intermediate_size": 4096,
                "norm": "rmsnorm",
                "hidden_act": "swiglu",
                "positions": "rotary",
                "max_position_embeddings": 4096,
                "layer_norms": n,
            }
        )
        for n in (2, 4)
    )
    count = [sum(op.name.startswith("norm") for op in operators((block,))) for block in (two, four)]
    assert count == [4, 8]


@pytest.mark.parametrize("name", [*HYBRIDS, *OTHERS])
def test_a_mesh_says_what_single_plans_say(name: str) -> None:
    def asked(tensor_parallel: int = 1) -> Scenario:
        return training(
            model=name,
            cluster="64x h100-sxm-80gb",
            global_batch=128,
            sequence_length=4096,
            plan={"micro_batch": 1, "recompute": "full", "tensor_parallel": tensor_parallel},
        )

    degrees = np.array([1, 2, 4])
    plan = replace(asked().plan, tensor_parallel=degrees, data_parallel=64 // degrees)
    together = np.broadcast_to(step_times(price(replace(asked(), plan=plan))).step_time_s, 3)
    assert list(together) == pytest.approx([float(predict(asked(int(t))).step_time_s) for t in degrees])


def test_ranks_have_whole_state_groups() -> None:
    with pytest.raises(InputError, match="allowed: a divisor of the model's 8 state-space groups"):
        layers("nemotron-h-56b-base-8k", devices=16, tensor_parallel=16)
