"""How much a replica's KV cache holds."""

import pytest
from serving_scenarios import serving

from sightline.simulation.deployment import room_of


def test_the_cache_is_what_weights_and_iterations_leave():
    scenario = serving()
    room = room_of(scenario)
    block = 2 * 32 * 8 * 128 * 2 * 16
    assert room.fits
    assert room.memory_bytes["kv_cache"] == room.blocks * block
    usable = 0.92 * scenario.cluster.device.memory_bytes
    assert usable - block < room.memory_bytes["total"] <= usable
    assert sum(size for part, size in room.memory_bytes.items() if part != "total") == pytest.approx(
        room.memory_bytes["total"]
    )


def test_more_memory_and_smaller_formats_hold_more():
    plain, more = (room_of(serving(plan={"memory_fraction": share})).blocks for share in (0.8, 0.9))
    eight_bits = room_of(serving(plan={"memory_fraction": 0.9, "quantization": ["fp8", "kv-fp8"]})).blocks
    assert plain < more < eight_bits / 2


def test_a_model_that_does_not_fit_has_no_cache():
    room = room_of(serving(model="llama-3-70b"))
    assert (room.fits, room.blocks, room.memory_bytes["kv_cache"]) == (False, 0, 0.0)


def test_a_cache_whose_size_users_state_is_a_share_of_what_the_weights_leave():
    scenario = serving(plan={"framework": "lightllm", "framework_version": "0"})
    room = room_of(scenario)
    left = scenario.cluster.device.memory_bytes - room.memory_bytes["weights"]
    assert room.memory_bytes["kv_cache"] == pytest.approx(0.85 * left, rel=1e-3)
    less = room_of(serving(plan={"framework": "lightllm", "framework_version": "0", "memory_fraction": 0.5}))
    assert less.memory_bytes["total"] <= 0.5 * scenario.cluster.device.memory_bytes


def test_vllm_of_2023_leaves_its_context_out_of_what_it_measures():
    earlier, later = (room_of(serving(plan={"framework_version": of})) for of in ("0.2", "0.3"))
    assert earlier.memory_bytes["framework"] == 0 < later.memory_bytes["framework"]
    assert earlier.blocks > later.blocks


@pytest.mark.parametrize(
    ("model", "ranks", "budget", "blocks"),
    [
        ("llama-2-7b", 1, 2048, 7462),
        ("llama-2-70b", 4, 2048, 31356),
        ("llama-3.1-70b", 4, 8192, 30251),
        ("qwen2.5-7b", 1, 1024, 65368),
    ],
)
def test_vllm_leaves_as_many_blocks_as_its_logs_say(model, ranks, budget, blocks):
    plan = {"framework_version": "0.15", "tensor_parallel": ranks, "max_batched_tokens": budget, "max_sequences": 128}
    assert room_of(serving(model=model, cluster=f"{ranks}x h100-sxm-80gb", plan=plan)).blocks == pytest.approx(
        blocks, rel=0.02
    )


def test_tokens_of_more_sequences_that_vllm_may_draw_leave_less_cache():
    plan = {"framework_version": "0.11", "memory_fraction": 0.9}
    few, many = (
        room_of(serving(model="gpt-oss-120b", cluster="1x h100-sxm-80gb", plan=plan | {"max_sequences": of}))
        for of in (128, 1024)
    )
    drawn = many.memory_bytes["activations"]
    assert drawn == 38 * 1024 * 201088
    assert many.blocks < few.blocks / 3
    newer = room_of(
        serving(model="gpt-oss-120b", cluster="1x h100-sxm-80gb", plan=plan | {"framework_version": "0.20"})
    )
    assert newer.memory_bytes["activations"] < drawn / 2
