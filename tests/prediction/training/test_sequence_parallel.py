"""What sequence parallelism saves and costs: which collectives show, what stages send, and what a pair measured."""

from typing import Any

import pytest
from training_scenarios import training

from sightline.prediction.training.micro_batch import Overlap
from sightline.prediction.training.priced import Priced, price
from sightline.program import Collective

GPT_22B = {
    "model_type": "gpt2",
    "hidden_size": 6144,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "vocab_size": 51200,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "dropout": 0.1,
}


def priced(devices: int = 8, **plan: Any) -> Priced:
    scenario = training(
        model=GPT_22B,
        cluster=f"{devices}x a100-sxm-80gb",
        sequence_length=2048,
        global_batch=4,
        plan={"framework": "megatron", "tensor_parallel": 8, "micro_batch": 4, "dtype": "fp16"} | plan,
    )
    return price(scenario)


@pytest.mark.parametrize(("recompute", "plain_s", "split_s"), [("none", 0.0196, 0.0190), ("selective", 0.0209, 0.0203)])
def test_a_layer_of_the_22b_model_gains_what_it_was_measured_to(recompute: str, plain_s: float, split_s: float) -> None:
    """Korthikanti 2022 (arXiv 2205.05198), table 4: forward and backward pass of one layer on 8 A100."""
    old = {"framework_version": "2022", "attention": "eager", "recompute": recompute}
    plain, split = (
        sum(passes.device_s for passes in priced(**old, sequence_parallel=on).times[0][:3]) for on in (False, True)
    )
    assert plain / split > 1.0
    assert plain / split == pytest.approx(plain_s / split_s, abs=0.03)
    assert (plain, split) == pytest.approx((plain_s, split_s), rel=0.11)


def shown_s(**plan: Any) -> tuple[float, float]:
    times = priced(**plan).times[0]
    return float(times.forward.collective_s), float(times.backward.collective_s)


def test_chunks_need_pieces_of_the_sequence() -> None:
    """``--tp-comm-overlap`` of Megatron-LM cuts gathers and scatters, not all-reduces."""
    whole = {"sequence_parallel": False}
    assert shown_s(**whole, tensor_overlap="all") == shown_s(**whole, tensor_overlap="backward")
    assert shown_s(tensor_overlap="all", sequence_parallel=True) < shown_s(
        sequence_parallel=True, tensor_overlap="none"
    )


def test_the_option_of_all_reduces_says_nothing_of_gathers_and_scatters() -> None:
    none, backward = ({"tensor_overlap": word} for word in ("none", "backward"))
    assert shown_s(**none, sequence_parallel=True) == shown_s(**backward, sequence_parallel=True)
    assert shown_s(**none, sequence_parallel=False) > shown_s(**backward, sequence_parallel=False)


def test_gradients_of_row_split_projections_are_gathered_before_anything_can_run_beside_it() -> None:
    split = priced(sequence_parallel=True, tensor_overlap="backward")
    gathers = [
        op
        for op in split.program.layers[0].backward
        if isinstance(op, Collective) and op.kind == "all_gather" and op.overlapped_with == "projections"
    ]
    assert [op.module for op in gathers] == ["mlp", "output projection"]
    assert shown_s(sequence_parallel=True, tensor_overlap="backward")[1] > sum(
        float(split.prices[id(op)].time_s) for op in gathers
    )


def test_ranks_fall_behind_once_where_a_sum_is_scattered_and_gathered() -> None:
    plain, split = (price_of_waiting(priced(sequence_parallel=on, tensor_overlap="none")) for on in (False, True))
    assert split == pytest.approx(plain)


def price_of_waiting(of: Priced) -> float:
    """Seconds of a layer's collectives beyond those alone."""
    layer, c = of.program.layers[0], of.constants
    collectives = [op for op in (*layer.forward, *layer.backward) if isinstance(op, Collective)]
    return sum(
        float(op.count * (of.prices[id(op)].time_s - c.collective_slowdown * of.alone[id(op)].time_s))
        for op in collectives
    )


def boundary(**plan: Any) -> dict[str, float]:
    of = priced(64, pipeline_parallel=8, **plan)
    return {op.part: float(op.count * op.network_bytes) for op in of.program.boundary if op.count}


def test_stages_send_the_whole_activation_without_it() -> None:
    whole = 2048 * 4 * 6144 * 2.0
    assert boundary(framework_version="0.5", sequence_parallel=False) == {"send-recv": whole}
    assert boundary(framework_version="0.5", sequence_parallel=True) == {"send-recv": whole / 8}


def test_before_megatron_core_they_sent_shares_and_gathered_them() -> None:
    whole = 2048 * 4 * 6144 * 2.0
    shares = boundary(framework_version="2022", sequence_parallel=False)
    assert shares == {"send-recv": whole / 8, "all-gather": whole}


def test_pieces_of_projections_hide_all_but_the_first_chunk() -> None:
    overlap = Overlap(pieces=1.0, chunks=4.0)
    assert overlap.exposed_s(4.0, 10.0, backward=False) == pytest.approx(1.0)
    assert overlap.exposed_s(4.0, 2.0, backward=False) == pytest.approx(2.0)
    assert Overlap().exposed_s(4.0, 10.0, backward=True) == pytest.approx(4.0)
