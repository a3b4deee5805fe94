"""What of a plan that serves a load no command says is said with the launch."""

import re

import pytest
from serving_scenarios import serving

from sightline.errors import InputError
from sightline.launching import completed, read, save, write
from sightline.launching.registry import ENGINE_WRITERS
from sightline.simulation.load import load_of

ADAPTERS = {"count": 4, "rank": 8}
SCALING = {"min": 1, "max": 2, "startup": "60 s"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("scheduler", "priority"), ("lora_adapters", ADAPTERS), ("autoscale", SCALING)],
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


ROUTERS = {
    ("vllm", "round-robin"): "vllm-router --policy round_robin --worker-urls",
    ("vllm", "prefix-aware"): "vllm-router --policy cache_aware --worker-urls",
    ("vllm", "precise-prefix"): "dynamo.frontend --router-mode kv",
    ("sglang", "round-robin"): "sglang_router.launch_router --policy round_robin",
    ("sglang", "prefix-aware"): "sglang_router.launch_router --policy cache_aware",
    ("sglang", "precise-prefix"): "dynamo.frontend --router-mode kv",
    **{(engine, "round-robin"): "upstream servers { server localhost" for engine in ("tgi", "lightllm")},
    **{(engine, "least-load"): "least_conn;" for engine in ENGINE_WRITERS if engine != "transformers"},
}


def _two(engine, **plan):
    degrees = {"tensor_parallel": 1} if engine != "llama.cpp" else {"pipeline_parallel": 1}
    return write(serving(cluster="2x h100-sxm-80gb", plan={"framework": engine, "replicas": 2, **degrees, **plan}))


@pytest.mark.parametrize(("engine", "router"), ROUTERS)
def test_the_router_of_a_plan_is_started_and_read_back(engine, router, tmp_path):
    launch = _two(engine, router=router)
    assert ROUTERS[engine, router] in launch.files["router.sh"]
    save(launch, tmp_path)
    plan = read(tmp_path).scenario["plan"]
    assert (plan["replicas"], plan.get("router", "round-robin")) == (2, router)


UNSTARTED = [
    (engine, router)
    for engine in sorted({*ENGINE_WRITERS} - {"transformers"})
    for router in ("prefix-aware", "precise-prefix", "weighted")
    if (engine, router) not in ROUTERS
]


@pytest.mark.parametrize(("engine", "router"), UNSTARTED)
def test_a_router_that_no_script_starts_is_refused(engine, router):
    with pytest.raises(InputError, match=rf"plan.router is {router}, which no script starts for {engine}"):
        _two(engine, router=router)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_servers_tell_the_router_what_they_keep_each_at_a_port_of_its_own(engine):
    script = _two(engine, router="precise-prefix").files["servers.sh"]
    assert script.count(f"dynamo.{engine}") == 1
    assert all(f"tcp://*:2008{server}" in script for server in (0, 1))
    assert "--port" not in script
    single = write(serving(plan={"framework": engine, "router": "precise-prefix"}))
    assert "dynamo" not in single.command


def test_routers_choose_among_servers_alone():
    pools = {"prefill": {"replicas": 2}, "decode": {"replicas": 2}}
    with pytest.raises(InputError, match=r"plan.router is least-load with plan.disaggregate"):
        write(serving(cluster="4x h100-sxm-80gb", plan={"router": "least-load", "disaggregate": pools}))
    plan = {"router": "prefix-aware", "data_parallel": 2, "replicas": 2}
    with pytest.raises(InputError, match=r"plan.router is prefix-aware with plan.data_parallel 2"):
        write(serving(cluster="4x h100-sxm-80gb", plan=plan))


@pytest.mark.parametrize(
    ("key", "value", "engines"),
    [
        ("kv_cache_blocks", 900, ("vllm", "sglang", "tensorrt-llm")),
        ("max_concurrent_requests", 50, ("vllm", "tgi")),
        ("max_queued_requests", 9, ("sglang",)),
        ("queue_timeout", 2.0, ("sglang",)),
        ("scheduler", "priority", ("vllm", "sglang")),
    ],
)
def test_limits_of_a_queue_or_a_cache_are_written_or_refused(key, value, engines):
    for engine in ENGINE_WRITERS:
        scenario = serving(plan={"framework": engine, key: value})
        if engine in engines:
            launch = write(scenario)
            if launch.files:
                assert "28800" in str(launch.files)
            else:
                assert read(launch.command).scenario["plan"][key] == value
        else:
            with pytest.raises(InputError, match=rf"plan.{key} is {value}: {engine} has no option.*{engines[0]}"):
                write(scenario)


@pytest.mark.parametrize(("seconds", "read_back"), [("2.5", 2.5), ("0", None), ("-1", None)])
def test_requests_of_sglang_wait_as_long_as_its_variable_says(seconds, read_back):
    reading = read(f"SGLANG_REQ_WAITING_TIMEOUT={seconds} python -m sglang.launch_server --model-path a/b")
    assert reading.scenario["plan"].get("queue_timeout") == read_back
    assert not reading.unread
    flag = read("python -m sglang.launch_server --model-path a/b --queue-timeout 2")
    assert "queue_timeout" not in flag.scenario["plan"]
    assert any("queue-timeout" in said for said in flag.without_counterpart)


@pytest.mark.parametrize("text", ["python -m sglang_router.launch_router --worker-urls", "vllm-router --worker-urls"])
def test_routers_look_at_prefixes_where_nothing_is_stated(text):
    servers = "\n".join(f"CUDA_VISIBLE_DEVICES={n} vllm serve Qwen/Qwen3-8B --port {8000 + n} &" for n in (0, 1))
    plan = read(f"{servers}\n{text} http://localhost:8000 http://localhost:8001\n").scenario["plan"]
    assert plan["router"] == "prefix-aware"


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize(
    ("plan", "prefill", "written"), [({}, {}, None), ({}, {"batch": 4}, "4"), ({"max_sequences": 9}, {}, "9")]
)
def test_prompts_that_run_at_once_are_the_plans_or_as_many_as_the_engine_takes(engine, plan, prefill, written):
    stated = {"framework": engine, **plan, "disaggregate": {"prefill": prefill, "decode": {}}}
    files = write(serving(cluster="2x h100-sxm-80gb", plan=stated)).files
    texts = [files["servers.sh"].split("decode=(")[0], files.get("prefill_options.yaml", "")]
    found = re.findall(r"(?:max-num-seqs|max-running-requests|max_batch_size:?) (\d+)", "".join(texts))
    assert {*found} == ({written} if written else set())


OPEN = {"distribution": "lognormal", "mean": 900, "cv": 1.0}


@pytest.mark.parametrize(
    ("load", "longest"),
    [
        ({"prompt_tokens": {"distribution": "uniform", "min": 10, "max": 300}}, 428),
        ({"prompt_tokens": {**OPEN, "max": 50_000}}, 50_128),
        ({"prompt_tokens": {**OPEN, "max": 200_000}}, 131_072),
        ({"sessions": {"turns": 3, "prefix_tokens": 1000}}, 2920),
        ({"sessions": {"turns": 2, "calls": 3, "tool_tokens": 72}}, 2 * (512 + 128) + 4 * (72 + 128)),
        ({"sessions": {"turns": 9, "context_tokens": 2000}}, 2000),
    ],
)
def test_servers_take_the_longest_request_that_is_stated(load, longest):
    assert f"--max-model-len {longest} " in write(serving(**load)).command


@pytest.mark.parametrize("seed", [0, 1])
def test_servers_take_some_more_than_the_longest_request_that_was_drawn(seed):
    asked = serving(prompt_tokens=OPEN, seed=seed)
    words = write(asked).command.split()
    longest = int(words[words.index("--max-model-len") + 1])
    drawn = max(int((part.prompt_tokens + part.output_tokens).max()) for part in load_of(asked))
    assert longest % 1024 == 0
    assert 0 <= longest - drawn < 1024
