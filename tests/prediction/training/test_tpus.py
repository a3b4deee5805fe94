"""MaxText on TPUs: what its code and the hardware say of a step."""

from typing import Any

import pytest
from operators import flash

from sightline.cost.attention import attention_cost, load_attention
from sightline.loading import load
from sightline.loading.clusters import read_cluster
from sightline.prediction import predict


def step(cluster: Any, **plan: Any) -> Any:
    plan = {"framework": "maxtext", "zero_stage": 3, "micro_batch": 4, "recompute": "full"} | plan
    work = {"task": "pretrain", "sequence_length": 8192, "global_batch": 1024}
    return predict(load({"model": "llama-3.1-8b", "cluster": cluster, "workload": work, "plan": plan}))


def test_a_slice_is_one_torus_up_to_a_pod():
    assert [read_cluster(f"{n}x tpu-v6e").per_node for n in (8, 256, 512)] == [8, 256, 256]
    assert read_cluster("4096x tpu-v5p").nodes == 1


def test_a_host_is_shared_by_the_devices_of_its_machine():
    assert [read_cluster(f"{n}x tpu-v6e").devices_per_host for n in (4, 256)] == [4, 8]
    assert read_cluster("16x h100-sxm-80gb").devices_per_host == 8


def test_a_head_takes_whole_matrix_units():
    # Heads of 128 use half of a matrix unit of 256.
    device = read_cluster("1x tpu-v6e").device

    def seconds(head: int, family: str = "tpu-256") -> float:
        core = flash(1, 8, 8, head, 2**15, 2**15)
        return float(attention_cost(core, device, load_attention(family)).time_s)

    assert seconds(128) == pytest.approx(seconds(256), rel=0.01)
    assert seconds(128, "tpu") < 0.8 * seconds(128)


def test_recomputation_does_not_repeat_the_last_product():
    phases = step("256x tpu-v6e").phases
    down = 4096 * 14336 / (4096 * (4096 * 2 + 1024 * 2) + 3 * 4096 * 14336)
    assert phases["recompute"] / phases["forward"] == pytest.approx(1 - down, abs=0.05)


def test_collectives_beside_products_take_the_same_core():
    # Weights come twice, gradients go once, all in 16 bits; four fifths of that is added, also of links half as fast.
    slow = {"devices": "256x tpu-v6e", "intra_node": {"name": "ici-v6e", "bandwidth": "180 GB/s"}}
    fast, slower = (step(cluster).phases["communication_exposed"] for cluster in ("256x tpu-v6e", slow))
    transfers_s = 3 * 2 * 8.03e9 / (0.95 * 360e9)
    assert slower - fast == pytest.approx(0.8 * transfers_s, rel=0.1)


def test_inputs_of_layers_leave_the_device():
    there, kept = (step("256x tpu-v6e", offload=offload).memory_bytes["activations"] for offload in ("activations", []))
    inputs = 32 * 4 * 8192 * 4096 * 2
    assert kept - there == pytest.approx(inputs * 30 / 32, rel=0.05)
