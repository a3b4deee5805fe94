"""Real jobs: processes that train, lose a neighbor, are killed, get slower; and the Trainer of transformers."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from waiting import PATIENCE_S, until
from watched import TINY

import sightline as sl
from sightline import watching

pytestmark = pytest.mark.slow

TRAIN = """
import sys, time
import torch
import sightline as sl
torch.set_num_threads(1)
torch.manual_seed(0)

def train(watch, steps, length=lambda step: 64, slow=lambda step: 0.0, rows=4):
    model = torch.nn.Sequential(torch.nn.Embedding(256, 64), torch.nn.Linear(64, 256))
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    with watch:
        for step in range(steps):
            ids = torch.randint(0, 256, (rows, length(step)))
            loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(0.02 + slow(step))
            watch.step(tokens=ids.numel(), sequence_length=ids.shape[1], loss=loss)
            losses.append(loss.item())
    return losses

SCENARIO, STORE = sys.argv[1:3]
"""


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "runs")


@pytest.fixture
def start(tmp_path, store):
    """Start a job: its scenario, and what it does after `TRAIN`."""
    began = []

    def start(job, scenario=TINY, launcher=(), **variables):
        written, script = tmp_path / "scenario.json", tmp_path / "job.py"
        written.write_text(json.dumps(scenario))
        script.write_text(TRAIN + textwrap.dedent(job))
        command = [sys.executable, *launcher, str(script), str(written), store]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        began.append(subprocess.Popen(command, env={**os.environ, **variables}, **pipes))
        return began[-1]

    yield start
    for process in began:
        process.kill()
        process.communicate()


def ended(process):
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    return output, errors


def events(store, kind):
    return [one for one in watching.read_one("latest", store).events if one["kind"] == kind]


def departures(store, cause):
    return [one for one in events(store, "departure") if one["cause"] == cause]


def confirmed(store, event):
    """Return the gain of an event by predictions of both plans, from the file of the situation beside its command."""
    folder = Path(watching.read_one("latest", store).about["folder"])
    present = folder / f"{Path(event['command'].split()[2]).stem}.present.json"
    best, now = sl.predict(sl.load(str(present), event["set"])), sl.predict(sl.load(str(present)))
    return 1 - best.step_time_s / now.step_time_s


def test_longer_sequences_are_said_and_planned_for(start, store):
    job = "train(sl.watch(SCENARIO, store=STORE, every_s=0.2), 160, length=lambda step: 64 if step < 60 else 160)"
    _, errors = ended(start(job))
    (departure,) = departures(store, "sequences")
    assert departure["sequence_length"] == 160
    replan = events(store, "replan")[-1]
    assert replan["set"]["plan.micro_batch"] == 4
    assert replan["gain"] == pytest.approx(confirmed(store, replan), rel=1e-6)
    assert errors.count(replan["sentence"][:60]) == 1
    assert errors.count("longer sequences: 160 tokens per sample, expected 64") == 1


def test_steps_that_become_slower_are_said_and_the_losses_stay(start, store):
    job = """
    slow = lambda step: 0.0 if step < 110 else 0.1
    watched = train(sl.watch(SCENARIO, store=STORE, every_s=0.2), 165, slow=slow)
    torch.manual_seed(0)
    class Nobody:
        __enter__ = lambda self: self
        __exit__ = lambda self, *_: None
        step = lambda self, **_: None
    assert watched == train(Nobody(), 165, slow=lambda step: -0.02), "the watch changed the losses"
    """
    ended(start(job))
    found = [one for one in events(store, "departure") if one["step"] > 110]
    assert found
    assert found[0]["cause"] in ("slower", "growing")
    (replan, *_) = [one for one in events(store, "replan") if one["step"] > 110]
    assert replan["gain"] == pytest.approx(confirmed(store, replan), rel=1e-6)
    assert "x its prediction" in replan["sentence"]


def test_two_of_four_processes_under_torchrun(start, store):
    job = """
    import torch.distributed as dist
    dist.init_process_group("gloo")
    train(sl.watch(SCENARIO, store=STORE, every_s=0.2), 80, rows=1)
    dist.destroy_process_group()
    """
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    scenario = {**TINY, "cluster": "4x this-machine", "workload": {**TINY["workload"], "global_batch": 16}}
    scenario["plan"] = {**TINY["plan"], "micro_batch": 1}
    ended(start(job, scenario, launcher, OMP_NUM_THREADS="1"))
    (one,) = watching.read(store)
    departure = next(event for event in one.events if event["kind"] == "departure")
    assert (departure["cause"], departure["devices"]) == ("devices", 2)
    replan = next(event for event in one.events if event["kind"] == "replan")
    assert replan["gain"] == pytest.approx(confirmed(store, replan), rel=1e-6)
    assert one.run.scenario["cluster"]["devices"] == 2


def test_a_killed_job_loses_nothing(start, store):
    process = start("train(sl.watch(SCENARIO, store=STORE, every_s=0.1), 10_000)")
    until(lambda: [one for one in watching.read(store) if one.last.get("step", 0) > 20])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    found = watching.read_one("latest", store)
    assert found.run.status == "interrupted"
    assert sum(line["steps"] for line in found.steps) == found.last["step"]


def test_a_search_that_is_killed_is_said_and_the_job_goes_on(start, store):
    job = """
    import os, signal
    from sightline.watching.observer import Replanner
    begin = Replanner.start
    def killed(self, question):
        begin(self, question)
        os.kill(self.pid, signal.SIGKILL)
    Replanner.start = killed
    print(len(train(sl.watch(SCENARIO, store=STORE, every_s=0.1), 100, length=lambda step: 64 if step < 40 else 160)))
    """
    output, _ = ended(start(job))
    assert output.strip() == "100"
    assert not events(store, "replan")
    assert any("ended early" in one["sentence"] for one in events(store, "note"))


def test_the_trainer_is_watched_with_a_scenario_of_its_own(start, store):
    job = """
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
    sizes = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=256)
    model = LlamaForCausalLM(LlamaConfig(**sizes))
    rows = torch.randint(0, 256, (400, 64))
    data = [{"input_ids": row, "labels": row} for row in rows]
    arguments = TrainingArguments(output_dir=STORE + "-out", per_device_train_batch_size=2, max_steps=60,
        gradient_accumulation_steps=2, report_to=[], use_cpu=True, save_strategy="no", logging_steps=5)
    callback = sl.watch(store=STORE, every_s=0.1).callback()
    Trainer(model=model, args=arguments, train_dataset=data, callbacks=[callback]).train()
    """
    ended(start(job, OMP_NUM_THREADS="1"))
    (one,) = watching.read(store)
    assert one.run.status == "ok"
    stated = one.run.scenario
    assert stated["model"]["hidden_size"] == 64
    assert (stated["workload"]["sequence_length"], stated["workload"]["global_batch"]) == (64, 4)
    assert (stated["plan"]["micro_batch"], stated["plan"]["framework"]) == (2, "transformers")
    assert one.run.result["mfu"] > 0
    assert one.last["sequence_length"] == 64
    assert one.last["loss"] > 0
    assert watching.read_one(one.id, store).last["step"] == 60
    assert sl.load(dict(stated))


def test_the_example_runs_and_says_what_the_documentation_shows(store):
    example = Path(__file__).parents[2] / "examples" / "watching" / "watch_tiny_llama.py"
    command = [sys.executable, str(example), "--steps", "45", "--store", store]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S)
    assert "longer sequences: 128 tokens per sample, expected 64" in said.stderr
    assert watching.read_one("latest", store).run.status == "ok"
