"""Memories behind the device's, written for engines that have them and refused by the others."""

import json
import re
import shlex

import pytest
import yaml
from serving_scenarios import serving

from sightline.errors import InputError
from sightline.launching import Launch, read, write
from sightline.launching.registry import ENGINE_WRITERS
from sightline.simulation.server import server_of

HOST = {"name": "host", "bytes": "120 GB", "bandwidth": "50 GB/s"}
DISK = {"name": "disk", "bytes": "2 TB", "bandwidth": "6 GB/s"}
ENGINES = ("vllm", "sglang", "tensorrt-llm")


def launched(engine: str, *tiers: dict[str, object], devices: int = 2, **plan: object) -> Launch:
    stated = {"framework": engine, "tensor_parallel": devices, "prefix_cache": True, "kv_tiers": list(tiers), **plan}
    return write(serving(cluster=f"{devices}x h100-sxm-80gb", plan=stated))


def value(launch: Launch, option: str) -> str:
    words = shlex.split(launch.command.replace("\\\n", " "))
    return words[words.index(option) + 1]


def host_bytes(launch: Launch, devices: int) -> float:
    """Host memory that all devices of the server are given."""
    match launch.framework:
        case "vllm":
            return json.loads(value(launch, "--kv-transfer-config"))["kv_connector_extra_config"]["cpu_bytes_to_use"]
        case "sglang":
            return devices * 1e9 * int(value(launch, "--hicache-size"))
        case _:
            return devices * yaml.safe_load(launch.files["llm_options.yaml"])["kv_cache_config"]["host_cache_size"]


@pytest.mark.parametrize("engine", ENGINES)
def test_host_memory_is_that_of_all_devices_of_a_server(engine):
    assert host_bytes(launched(engine, HOST), 2) == pytest.approx(120e9)
    without = launched(engine)
    assert not any("kv_tiers" in note for note in without.without_counterpart)
    assert "cpu_bytes" not in without.command + str(without.files)


@pytest.mark.parametrize("engine", ENGINES)
def test_tokens_take_the_bytes_that_the_simulated_cache_gives_them(engine):
    tier = {"tokens": 1_000_000, "bandwidth": "50 GB/s"}
    plan = {"framework": engine, "tensor_parallel": 2, "kv_tiers": [tier]}
    scenario = serving(cluster="2x h100-sxm-80gb", plan=plan)
    room = server_of(scenario).pools[0].room
    of_token = 2 * room.block_bytes / scenario.plan.kv_block_tokens
    assert host_bytes(write(scenario), 2) == pytest.approx(1e6 * of_token, abs=2e9 if engine == "sglang" else 2)


@pytest.mark.parametrize(("engine", "folder"), [("vllm", "kv-tier-1"), ("sglang", "/tmp/hicache")])
def test_storage_behind_host_memory_is_files(engine, folder):
    launch = launched(engine, HOST, DISK)
    assert any(
        note.startswith("plan.kv_tiers[1] disk: files in") and folder in note for note in launch.without_counterpart
    )
    if engine == "vllm":
        extra = json.loads(value(launch, "--kv-transfer-config"))["kv_connector_extra_config"]
        assert extra["secondary_tiers"] == [{"type": "fs", "root_dir": folder}]
    else:
        assert value(launch, "--hicache-storage-backend") == "file"


@pytest.mark.parametrize("engine", sorted({*ENGINE_WRITERS} - {*ENGINES}))
def test_engines_without_tiers_refuse_them_by_name(engine):
    with pytest.raises(InputError, match=rf"plan.kv_tiers has .*; {engine} keeps .* at most 0 .*vllm in any number"):
        launched(engine, HOST, devices=1)


@pytest.mark.parametrize(("engine", "most"), [("sglang", 2), ("tensorrt-llm", 1)])
def test_more_memories_than_an_engine_has_are_refused(engine, most):
    with pytest.raises(InputError, match=rf"plan.kv_tiers has {most + 1} memories; .* at most {most}"):
        launched(engine, HOST, *[DISK] * most)


def test_tiers_need_a_prefix_cache_and_workers_that_do_both():
    with pytest.raises(InputError, match=r"plan.kv_tiers needs plan.prefix_cache true"):
        launched("vllm", HOST, prefix_cache=False)
    with pytest.raises(InputError, match=r"plan.kv_tiers is not launched with plan.disaggregate"):
        launched("vllm", HOST, tensor_parallel=1, disaggregate={"prefill": {}, "decode": {}})


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("shared", ["rank", "node"])
def test_servers_keep_files_alone_or_together(engine, shared):
    launch = launched(engine, HOST, {**DISK, "shared": shared}, tensor_parallel=1, replicas=2)
    script = launch.files["servers.sh"]
    folders = ["kv-tier-1-0", "kv-tier-1-1"] if shared == "rank" else ["kv-tier-1"]
    assert {*re.findall(r"kv-tier[-\d]+", script)} == {*folders}
    assert ("PYTHONHASHSEED" in script) == (engine == "vllm" and shared == "node")


@pytest.mark.parametrize("engine", ENGINES)
def test_host_memory_of_one_rank_is_shared_with_nobody(engine):
    launched(engine, {**HOST, "shared": "node"})
    with pytest.raises(InputError, match=r"plan.kv_tiers\[0\].shared is node with several ranks.*allowed: rank"):
        launched(engine, {**HOST, "shared": "node"}, tensor_parallel=1, replicas=2)


@pytest.mark.parametrize(
    ("engine", "way", "value"),
    [
        *[("vllm", "write", "back"), ("tensorrt-llm", "write", "through"), ("vllm", "fetch", "faster")],
        *[("vllm", "prefetch", True), ("sglang", "prefetch", False), ("sglang", "write", "back")],
    ],
)
def test_what_an_engine_does_otherwise_is_refused(engine, way, value):
    place = 0 if engine == "tensorrt-llm" else 1
    tiers = [HOST, DISK][: place + 1]
    launched(engine, *tiers)
    with pytest.raises(InputError, match=rf"plan.kv_tiers\[{place}\].{way} is .*, which {engine} does not do"):
        launched(engine, *tiers[:-1], {**tiers[-1], way: value})


@pytest.mark.parametrize(("stated", "written"), [({}, "write_through"), ({"write": "back"}, "write_back")])
def test_sglang_is_told_when_to_write(stated, written):
    assert value(launched("sglang", {**HOST, **stated}), "--hicache-write-policy") == written
    assert value(launched("sglang", HOST, DISK), "--hicache-storage-prefetch-policy") == "wait_complete"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_tiers_of_a_command_are_named_as_left_out(engine):
    (said,) = (one for one in read(launched(engine, HOST).command).without_counterpart if "kv_tiers" in one)
    assert "no command says the bandwidth" in said
    assert not any("kv_tiers" in one for one in read(launched(engine).command).without_counterpart)
