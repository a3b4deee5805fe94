"""Scripts are run by the shell, with programs in place of the engines that write down how they were called."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from generation_scenarios import generation
from waiting import PATIENCE_S

from sightline.launching import save, write

PROGRAMS = {
    "vllm": "vllm",
    "sglang": "python",
    "tensorrt-llm": "trtllm-serve",
    "tgi": "text-generation-launcher",
    "lightllm": "python",
    "llama.cpp": "llama-server",
    "transformers": "transformers",
}
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


@pytest.fixture
def calls(tmp_path):
    """Run a saved launch on a node, and return its calls: the devices that each server sees and its words."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in (*PROGRAMS.values(), "trtllm-llmapi-launch"):
        stub = folder / name
        # In one write, for the servers of a script run at the same time.
        stub.write_text('#!/bin/bash\nprintf "%s\\n" "$CUDA_VISIBLE_DEVICES $(basename $0) $*" >> "$CALLS"\n')
        stub.chmod(0o755)

    def run(script: Path, node: int) -> list[str]:
        log = tmp_path / f"calls-{node}"
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(log)}
        names = {"NODE_RANK": str(node), "HOSTS": "first second third fourth"}
        subprocess.run(["bash", script], env=environment | names, check=True, timeout=PATIENCE_S)
        return sorted(log.read_text().splitlines())

    return run


@pytest.mark.parametrize("engine", sorted(PROGRAMS))
def test_a_server_of_one_node_is_one_call(engine, calls, tmp_path):
    launch = write(generation(cluster="1x a100-sxm-80gb", plan={"framework": engine}))
    (call,) = calls(save(launch, tmp_path)[0], 0)
    assert call.split()[0] == PROGRAMS[engine]
    assert launch.command.split()[-1] == call.split()[-1]


@pytest.mark.parametrize("engine", sorted({*PROGRAMS} - {"transformers"}))
def test_a_node_starts_its_own_servers(engine, calls, tmp_path):
    degrees = {"pipeline_parallel": 4} if engine == "llama.cpp" else {"tensor_parallel": 4}
    launch = write(generation(cluster="16x a100-sxm-80gb", batch=64, plan={"framework": engine, **degrees}))
    script, *_ = save(launch, tmp_path)
    for node in (0, 1):
        started = calls(script, node)
        assert [call.split()[0] for call in started] == ["0,1,2,3", "4,5,6,7"]
        assert len({re.search(r"--port (\d+)", call)[1] for call in started}) == 2


def test_nodes_of_one_vllm_server_find_the_first(calls, tmp_path):
    launch = write(generation(model="deepseek-v3", cluster="16x h100-sxm-80gb", plan={"framework": "vllm"}))
    script, *_ = save(launch, tmp_path)
    (first,), (second,) = calls(script, 0), calls(script, 1)
    assert "--nnodes 2 --node-rank 0 --master-addr first" in first
    assert "--nnodes 2 --node-rank 1 --master-addr first --headless" in second


def test_options_with_json_reach_the_program_whole(calls, tmp_path):
    pools = {"prefill": {"tensor_parallel": 4}, "decode": {"tensor_parallel": 4}}
    launch = write(generation(cluster="8x a100-sxm-80gb", plan={"framework": "vllm", "disaggregate": pools}))
    prefill, decode = calls(save(launch, tmp_path)[0], 0)
    assert '{"kv_connector": "NixlConnector", "kv_role": "kv_producer"}' in prefill
    assert '{"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}' in decode
