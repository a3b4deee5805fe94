"""What of a plan that serves a load no command says is said with the launch."""

import pytest
from serving_scenarios import serving

from sightline.launching import completed, read, write

ADAPTERS = {"count": 4, "rank": 8}
SCALING = {"min": 1, "max": 2, "startup": "60 s"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("scheduler", "priority"), ("router", "least-load"), ("lora_adapters", ADAPTERS), ("autoscale", SCALING)],
        *[("max_queued_requests", 9), ("queue_timeout", "2 s")],
    ],
)
def test_what_operators_do_is_named(key, value):
    def named(**plan: object) -> bool:
        launch = write(serving(cluster="2x h100-sxm-80gb", plan={"tensor_parallel": 1, **plan}))
        return any(note.startswith(f"plan.{key}") for note in launch.without_counterpart)

    assert named(**{key: value})
    assert not named()


@pytest.mark.parametrize(
    ("command", "plan"),
    [
        ("vllm serve a/b -dp 2 --num-gpu-blocks-override 900 --max-num-queued-reqs 64", (900, 32, None)),
        (
            "sglang serve --model-path a/b --page-size 4 --max-total-tokens 4002 --max-queued-requests 9",
            (1000, None, 9),
        ),
    ],
)
def test_the_cache_and_the_queue_of_a_command_are_those_of_the_plan(command, plan):
    stated = read(command).scenario["plan"]
    keys = ("kv_cache_blocks", "max_concurrent_requests", "max_queued_requests")
    assert tuple(stated.get(key) for key in keys) == plan


@pytest.mark.parametrize(
    ("engine", "written"),
    [("vllm", "--num-gpu-blocks-override 900"), ("sglang", "--max-total-tokens 900"), ("tensorrt-llm", "28800")],
)
def test_the_cache_of_a_plan_is_written(engine, written):
    launch = write(serving(plan={"framework": engine, "kv_cache_blocks": 900}))
    assert written in " ".join([launch.command, *launch.files.values()])


def test_what_matters_under_a_load_alone_is_left_out_of_a_batch():
    reading = completed(read("vllm serve Qwen/Qwen3-8B --num-gpu-blocks-override 900"), {"cluster": "1x h100-sxm-80gb"})
    assert "kv_cache_blocks" not in reading.scenario["plan"]
    assert any("plan.kv_cache_blocks" in said for said in reading.without_counterpart)
