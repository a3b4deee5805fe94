"""A loop that is watched: what it leaves in the store, and that nothing of the watch reaches the job."""

import io
import json
import logging
import os
import re
import resource
from time import sleep

import pytest
from waiting import until
from watched import TINY

import sightline as sl
from sightline import watching
from sightline.runs import open_store


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "runs")


def play(watch, count=30, seconds=0.0, **figures):
    """A job of some steps; returns its losses."""
    losses = []
    with watch:
        for number in range(count):
            sleep(seconds)
            losses.append(1.0 / (1 + number))
            watch.step(loss=losses[-1], **figures)
    return losses


EXPECTED = [1.0 / (1 + number) for number in range(30)]


def test_a_watch_is_a_measured_run(store):
    watch = sl.watch(TINY, store=store, show=False, name="my job")
    play(watch, tokens=256, seconds=0.002)
    run = open_store(store).find("latest")
    assert (run.id, run.name, run.status, run.suite) == (watch.id, "my job", "ok", "watch")
    assert run.result["source"] == "measured"
    assert run.result["step_time_s"] >= 0.002
    assert run.result["tokens_per_s"] == pytest.approx(256 / run.result["step_time_s"])
    assert run.result["mfu"] > 0
    assert run.result["memory_bytes"]["total"] > 0
    low, high = run.result["interval"]["step_time_s"]
    assert low <= run.result["step_time_s"] <= high
    assert open_store(store).samples(run).height == len(watching.read_one(watch.id, store).steps)


def test_the_run_compares_with_its_prediction_and_anchors_others(store):
    watch = sl.watch(TINY, store=store, show=False)
    play(watch, seconds=0.002)
    run = open_store(store).find(watch.id)
    compared = sl.compare(run, "predicted", store=store)
    assert compared.rows
    answer = sl.predict(sl.load(TINY), anchor=[run])
    assert answer.anchor[0]["from"] == watch.id


def test_the_stream_says_what_every_step_comes_to(store):
    watch = sl.watch(TINY, store=store, show=False, every_s=0.01)
    play(watch, seconds=0.005, tokens=256, sequence_length=64)
    found = watching.read_one("latest", store)
    assert sum(line["steps"] for line in found.steps) == 30
    assert found.steps[-1]["step"] == 30
    assert found.last["loss"] == pytest.approx(1 / 30)
    assert all(line["gap"] == pytest.approx(line["step_time_s"] / found.about["predicted"]["step_time_s"] - 1)
               for line in found.steps)  # fmt: skip
    later = watching.read_one(watch.id, store, since=3)
    assert later.steps == found.steps[3:]
    assert later.next_step == len(found.steps)
    json.dumps(found.to_dict())


def test_a_watch_can_be_read_while_the_job_runs(store):
    with sl.watch(TINY, store=store, show=False, every_s=0.01) as watch:
        watch.step()
        until(lambda: watching.read(store)[0].last)
        (one,) = watching.read(store)
        assert one.is_running
        assert one.last["step"] == 1
        assert one.about["predicted"]["step_time_s"] > 0
    (one,) = watching.read(store)
    assert one.run.status == "ok"


def test_without_a_scenario_only_what_is_measured_is_told(store):
    watch = sl.watch(store=store, show=False)
    play(watch, tokens=100)
    run = open_store(store).find(watch.id)
    assert run.result["tokens_per_s"] > 0
    assert "mfu" not in run.result
    assert "gap" not in watching.read_one(watch.id, store).last


def test_parts_and_input_are_timed(store):
    watch = sl.watch(store=store, show=False)
    with watch:
        for _ in watch.inputs(range(20)):
            with watch.part("all_reduce"):
                sleep(0.004)
            watch.step()
    measured = open_store(store).find(watch.id).result["measurement"]
    assert measured["parts"]["all_reduce"] >= 0.004
    assert measured["input_wait_s"] < measured["parts"]["all_reduce"]


@pytest.mark.slow
def test_tensors_are_read_as_numbers(store):
    torch = pytest.importorskip("torch")
    watch = sl.watch(store=store, show=False)
    weight = torch.ones(1, requires_grad=True)
    with watch:
        for _ in range(20):
            watch.step(tokens=torch.tensor(64), loss=(2.5 * weight).sum())
    found = watching.read_one(watch.id, store)
    assert found.last["loss"] == 2.5
    assert found.last["tokens_per_s"] > 0


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ({**TINY, "model": "llama-2-7"}, "llama-2-7b"),
        ("nowhere.yaml", "nowhere.yaml"),
        ({"workload": {**TINY["workload"], "task": "serve"}, **{k: TINY[k] for k in ("model", "cluster")}}, "workload"),
        ([TINY, TINY], "has 2 scenarios"),
    ],
)
def test_a_wrong_scenario_is_refused_before_the_training(scenario, said):
    with pytest.raises(sl.InputError, match=said):
        sl.watch(scenario)


@pytest.mark.parametrize("options", [{"every_s": 0}, {"every_s": float("nan")}, {"devices": 0}])
def test_wrong_options_are_refused(options):
    with pytest.raises(sl.InputError, match=next(iter(options))):
        sl.watch(**options)


def test_a_store_that_cannot_be_written_is_said_once(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with caplog.at_level(logging.WARNING, "sightline.watching"):
        losses = play(sl.watch(TINY, store=str(blocked), show=False, every_s=0.005), seconds=0.001)
    assert losses == EXPECTED
    (said,) = caplog.records
    assert "the job continues" in said.getMessage()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_store_is_said_once(tmp_path, caplog):
    tmp_path.chmod(0o500)
    assert play(sl.watch(TINY, store=str(tmp_path / "runs"), show=False)) == EXPECTED
    assert len(caplog.records) == 1


def test_a_store_that_is_deleted_meanwhile_is_said_once(store, caplog):
    import shutil

    watch = sl.watch(TINY, store=store, show=False, every_s=0.005)
    with watch:
        shutil.rmtree(store)
        for _ in range(20):
            sleep(0.003)
            watch.step()
    assert 1 <= len(caplog.records) <= 2


def test_a_full_disk_is_said_once_and_what_was_written_stays(store, caplog):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    watch = sl.watch(TINY, store=store, show=False, every_s=0.002)
    try:
        with watch:
            # No file of this process may become larger than this.
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
            for _ in range(3):
                watch.step(tokens=256)
            until(lambda: watch.step(tokens=256) or caplog.records)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert any("writing to the store" in record.getMessage() for record in caplog.records)
    assert len(caplog.records) <= 2
    found = watching.read_one(watch.id, store)
    assert found.steps
    assert sum(line["steps"] for line in found.steps) == found.steps[-1]["step"]


def test_an_error_of_the_job_passes_and_is_the_runs_reason(store):
    watch = sl.watch(TINY, store=store, show=False)
    with pytest.raises(ZeroDivisionError, match="division"), watch:
        raise ZeroDivisionError("division by zero")
    run = open_store(store).find(watch.id)
    assert (run.status, run.reason) == ("crashed", "ZeroDivisionError: division by zero")


def test_an_interrupt_passes(store):
    watch = sl.watch(TINY, store=store, show=False)
    with pytest.raises(KeyboardInterrupt), watch:
        raise KeyboardInterrupt
    assert open_store(store).find(watch.id).status == "interrupted"


def test_figures_that_are_none_are_left_out(store, caplog):
    play(sl.watch(TINY, store=store, show=False), tokens="many", sequence_length=object())
    assert not caplog.records


def test_other_ranks_do_nothing(store, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    watch = sl.watch(TINY, store=store, show=False)
    assert play(watch) == EXPECTED
    assert not watch.id
    assert not watching.read(store)


def test_several_watches_at_once(store):
    outer, inner = (sl.watch(TINY, store=store, show=False, name=name) for name in ("outer", "inner"))
    with outer:
        for _ in range(3):
            play(inner, 5)
            outer.step()
    names = [one.run.name for one in watching.read(store)]
    assert sorted(names) == ["inner", "inner", "inner", "outer"]


def test_a_forked_process_does_nothing(store):
    watch = sl.watch(TINY, store=store, show=False, every_s=0.01)
    with watch:
        watch.step()
        # As a loader's worker: only this thread goes on there.
        child = os.fork()
        if not child:
            watch.step()
            os._exit(int(watch.is_open))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        watch.step()
    assert watching.read_one(watch.id, store).last["step"] == 2


def test_fewer_processes_than_devices_are_said(store, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "3")
    watch = sl.watch({**TINY, "cluster": "4x this-machine"}, store=store, replan=False, every_s=0.01)
    play(watch, seconds=0.005)
    (event,) = [one for one in watching.read_one(watch.id, store).events if one["kind"] == "departure"]
    assert (event["cause"], event["devices"]) == ("devices", 3)
    said = capsys.readouterr()
    assert said.err.count("fewer devices: 3 of 4") == 1
    assert not said.out


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_one_line_that_changes(store, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    play(sl.watch(TINY, store=store, every_s=0.01), seconds=0.005, tokens=256)
    text = screen.getvalue()
    assert text.count("\n") == 1
    assert "\r" in text
    assert "tokens/s" in text
    assert text.endswith("\n")


def screen_after(text):
    """What a terminal shows after a text with carriage returns and erased lines."""
    lines, place = [""], 0
    for part in re.findall("\x1b\\[2K|\x1b\\[[0-9;]*m|\r|\n|[^\x1b\r\n]+", text):
        if part == "\n":
            lines.append("")
            place = 0
        elif part == "\r":
            place = 0
        elif part == "\x1b[2K":
            lines[-1] = ""
        elif not part.startswith("\x1b"):
            lines[-1] = lines[-1].ljust(place)[:place] + part + lines[-1][place + len(part) :]
            place += len(part)
    return lines


def test_what_the_job_prints_leaves_no_tail_of_the_line_that_changes(store, monkeypatch):
    screen = Terminal()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with sl.watch(TINY, store=store, every_s=0.005, replan=False) as watch:
        for number in range(3):
            until(lambda: watch.step(tokens=256) or screen.getvalue().endswith("\r"))
            print(f"epoch {number}")  # noqa: T201 - as a job does
    lines = screen_after(screen.getvalue())
    assert [line for line in lines if line.startswith("epoch")] == ["epoch 0", "epoch 1", "epoch 2"]
    assert "write" not in vars(screen)


def test_a_run_that_is_no_watch_is_refused(store):
    writer = open_store(store).begin("measured")
    with pytest.raises(sl.InputError, match="measured, not watched"):
        watching.read_one(writer.run.id, store)
    assert not watching.read(store)


def test_a_line_that_was_cut_is_left_out(store, tmp_path):
    watch = sl.watch(TINY, store=store, show=False)
    play(watch)
    path = tmp_path / "runs" / watch.id / "steps.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step": 3')
    assert watching.read_one(watch.id, store).last["step"] == 30


def test_a_watch_moves_to_another_store_with_its_stream(store, tmp_path):
    from sightline.runs.exchange import from_archive, to_archive

    watch = sl.watch(TINY, store=store, show=False)
    play(watch)
    opened, archive = open_store(store), tmp_path / "runs.zip"
    archive.write_bytes(to_archive(opened, opened.runs()))
    there = open_store(str(tmp_path / "there"))
    from_archive(there, archive)
    assert watching.read_one(watch.id, there).to_dict() == watching.read_one(watch.id, opened).to_dict()


def test_a_watch_reads_well_in_runs_show(store):
    from rich.console import Console

    from sightline.answers.runs import run_outline
    from sightline.render.terminal import outline_text

    watch = sl.watch({**TINY, "cluster": "4x this-machine"}, store=store, show=False, replan=False, devices=2)
    play(watch, seconds=0.002)
    opened = open_store(store)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(outline_text(run_outline(opened.find(watch.id), opened)))
    text = console.export_text()
    assert "step " in text
    assert "fewer devices: 2 of 4" in text
    assert "events.jsonl" in text


class Event:
    """As PyTorch's events of a device that runs behind the host: no test machine has one."""

    clock = 0

    def __init__(self):
        Event.clock += 1
        self.place = Event.clock

    def query(self):
        return self.place <= Event.clock - 3

    def elapsed_time(self, other):
        if other.place > Event.clock - 3:
            raise RuntimeError("both events must be completed")
        return 7.0 * (other.place - self.place)


def test_a_device_that_runs_behind_is_read_later(store, monkeypatch):
    marks = iter([None, *(Event() for _ in range(40))])
    Event.clock = 20
    monkeypatch.setattr("sightline.watching.readings.mark", lambda: next(marks))
    watch = sl.watch(store=store, show=False, every_s=0.005)
    with watch:
        for _ in range(40):
            watch.step()
        # The device has passed 17 of the marks, and nobody waits for the others.
        until(lambda: watching.read_one(watch.id, store).last.get("step") == 17)
        Event.clock = 50
    lines = watching.read_one(watch.id, store).steps
    assert sum(line["steps"] for line in lines) == 40
    assert open_store(store).find(watch.id).result["step_time_s"] == pytest.approx(7e-3)
