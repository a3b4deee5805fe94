"""Waiting for other ranks is exposed communication, wherever in a step it happens."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

LATE_S = 0.3
RANK = """
import json, sys, time
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM
from sightline.measurement.instrument import instrument
from sightline.measurement.timing import HostClock

kind, rank, store, late_s = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank, world_size=2)
torch.set_num_threads(1)
torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, vocab_size=128)
).train()
if kind == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
else:
    mesh = init_device_mesh("cpu", (2,))
    for part in (*model.model.layers, model):
        fully_shard(part, mesh=mesh)
on_model = instrument(model, None, HostClock())
x = torch.randint(0, 128, (2, 16))
for turn in range(4):
    with on_model.recording():
        with on_model.phase("forward"):
            loss = model(input_ids=x, labels=x, use_cache=False).loss
        if rank == 1 and turn:
            time.sleep(late_s)
        with on_model.phase("backward"):
            loss.backward()
if rank == 0:
    rows = on_model.rows()
    print(json.dumps([[r.phase, r.module, float(r.time_s), float(r.flops)] for r in rows]))
on_model.remove()
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_a_rank_that_is_late_shows_as_exposed_communication_and_not_in_any_module(kind: str, tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), kind, str(rank), str(tmp_path / "store"), str(LATE_S)], stdout=subprocess.PIPE
        )
        for rank in range(2)
    ]
    out = ranks[0].communicate(timeout=300)[0]
    assert [p.wait(timeout=60) for p in ranks] == [0, 0]
    rows = json.loads(out)
    exposed = sum(t for phase, _, t, _ in rows if phase == "communication_exposed")
    assert exposed > 0.9 * LATE_S
    assert max(t for phase, _, t, _ in rows if phase in ("forward", "backward")) < LATE_S / 2
    products = 2 * 2 * 16 * 64 * (2 * 64)
    assert next(f for phase, module, _, f in rows if (phase, module) == ("forward", "output projection")) == products
