"""Long work shows a bar on a terminal, and only there; Ctrl-C stops it and shows what was found until then."""

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from waiting import PATIENCE_S

from sightline.cli import progress_bar as bars
from sightline.runs import open_store

SWEEP = ["--sweep", "workload.sequence_length=" + ",".join(str(256 * n) for n in range(1, 41)), "--json"]
AT_ONCE = """
import sys
from sightline.cli import main, progress_bar
progress_bar.APPEARS_AFTER_S = 0
sys.exit(main.run(sys.argv[1:]))
"""
"""The command line whose bars wait for nothing."""


def test_a_terminal_sees_progress_and_stdout_stays_json(example):
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", AT_ONCE, "predict", str(example), *SWEEP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, text=True) as process:
        os.close(follower)
        out, _ = process.communicate(timeout=PATIENCE_S)
    seen = read_all(leader)
    assert process.returncode == 0
    assert len(json.loads(out)) == 40
    assert "predicting" in seen


def test_a_file_sees_none(run, example):
    answer = run("predict", example, *SWEEP)
    assert answer.returncode == 0
    assert "predicting" not in answer.stderr


def test_ctrl_c_shows_what_was_predicted_until_then(in_process, example, monkeypatch):
    from sightline import prediction

    predictor, asked = prediction.predictor, []

    def interrupted(scenarios, **known):
        predict = predictor(scenarios, **known)

        def answer(scenario):
            asked.append(scenario)
            if len(asked) == 2:
                signal.raise_signal(signal.SIGINT)
            return predict(scenario)

        return answer

    monkeypatch.setattr(prediction, "predictor", interrupted)
    before = signal.getsignal(signal.SIGINT)
    code, out, err = in_process("predict", example, *SWEEP)
    assert code == 130
    assert len(json.loads(out)) == 2
    assert "stopped after 2 of 40" in err
    assert signal.getsignal(signal.SIGINT) is before


def test_work_without_a_part_that_could_be_shown_just_ends(in_process, monkeypatch):
    from sightline.calibration.parts.part import Part

    def interrupted(*given):
        progress = given[-1]
        progress.cancel()
        progress.check()

    monkeypatch.setattr(Part, "fit", interrupted)
    tables = "examples/tables/matmuls-a100.csv"
    code, out, err = in_process("calibrate", "--from", tables, "--device", "a100-sxm-80gb")
    assert (code, out, err) == (130, "", "sightline: interrupted\n")


def test_a_command_that_is_interrupted_says_so(in_process, monkeypatch):
    from sightline.calibration.parts.part import Part

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Part, "fit", killed)
    tables = "examples/tables/matmuls-a100.csv"
    code, out, err = in_process("calibrate", "--from", tables, "--device", "a100-sxm-80gb")
    assert (code, out, err) == (130, "", "sightline: interrupted\n")


def test_a_second_ctrl_c_interrupts_at_once():
    with bars.progress_bar() as progress:
        signal.raise_signal(signal.SIGINT)
        assert progress.cancelled
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_work_that_waits_for_processes_is_interrupted_by_the_first():
    with pytest.raises(KeyboardInterrupt), bars.progress_bar(stops=False):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("stops", [True, False])
def test_work_that_stores_what_has_ended_prints_a_line_and_says_so_when_it_is_stopped(tmp_path, capsys, stops):
    store = open_store(str(tmp_path))
    with suppress(KeyboardInterrupt), bars.progress_bar(stops=stops, stored=store) as progress:
        run = store.begin("a case").finish()
        progress.begin(3, "measuring")
        progress.advance()
        signal.raise_signal(signal.SIGINT)
    err = capsys.readouterr().err
    begin, *_, end = err.splitlines()
    assert "measuring: 0 of 3" in begin
    assert "1 of 3" in end
    assert run.id in end
    assert all(str(tmp_path) in line for line in (begin, end))


@pytest.mark.parametrize(("silence_s", "lines"), [(0.0, 1), (3600.0, 0)])
def test_a_log_gets_a_line_of_work_that_lasts(capsys, monkeypatch, silence_s, lines):
    monkeypatch.setattr(bars, "APPEARS_AFTER_S", silence_s)
    with bars.progress_bar(lines=True) as progress:
        progress.begin(3, "simulating")
        progress.advance(3)
        progress.begin(3, "comparing")
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_work_that_ends_says_nothing_of_how_it_goes_on(tmp_path, capsys):
    with bars.progress_bar(stored=open_store(str(tmp_path))) as progress:
        progress.begin(1, "measuring")
        progress.advance()
    assert "resume" not in capsys.readouterr().err


def read_all(leader):
    """Return what was written to a terminal; its end shows as an error on Linux."""
    seen = b""
    try:
        while chunk := os.read(leader, 4096):
            seen += chunk
    except OSError:
        pass
    os.close(leader)
    return seen.decode()
