"""Every command reads and writes whatever streams, terminals, encodings and signals it gets."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hard_places import COMMANDS, TRAINING, check_quiet, run
from waiting import PATIENCE_S, until

C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": None}
"""The locale of C, without what Python does about it."""
ENCODINGS = {
    "C": C,
    "POSIX": {**C, "LC_ALL": "POSIX"},
    "ascii": {"PYTHONIOENCODING": "ascii:strict"},
    "latin-1": {"PYTHONIOENCODING": "latin-1:strict"},
    "cp437": {"PYTHONIOENCODING": "cp437:strict"},
}
SOME = ("predict", "chart", "plan", "help")
NAME = "name=Übung α"
DRAWN = set("│─╭█▏·×±≈")
"""What tables and bars are drawn with."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "encoding"),
    [*((name, "C") for name in COMMANDS), *((name, one) for name in SOME for one in ENCODINGS if one != "C")],
)
def test_what_an_encoding_lacks_is_drawn_otherwise(name, encoding, tmp_path):
    answer = run(name, tmp_path, environment=ENCODINGS[encoding])
    check_quiet(answer)
    if encoding not in ("latin-1", "cp437"):
        assert answer.stdout.isascii()


@pytest.mark.parametrize(
    ("name", "looks"), [("help", "+-"), ("predict", "8 x a800-sxm-80gb * batch"), ("predict", "##")]
)
def test_boxes_bars_and_dots_have_ascii_that_looks_like_them(name, looks, tmp_path):
    answer = run(name, tmp_path, environment={"PYTHONIOENCODING": "ascii:strict"})
    check_quiet(answer)
    assert looks in answer.stdout.decode("ascii")
    assert "?" not in answer.stdout.decode("ascii")
    plain = run(name, tmp_path, environment={"PYTHONIOENCODING": "utf-8"}).stdout.decode()
    assert DRAWN & set(plain)


def predicted(tmp_path, environment, *more):
    command = [sys.executable, "-m", "sightline", "predict", str(TRAINING), *more]
    whole = {key: value for key, value in {**os.environ, **environment}.items() if value is not None}
    answer = subprocess.run(command, env=whole, cwd=tmp_path, capture_output=True, check=False, timeout=PATIENCE_S)
    check_quiet(answer)
    return answer.stdout


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_json_has_every_character_in_any_encoding(encoding, tmp_path):
    found = json.loads(predicted(tmp_path, ENCODINGS[encoding], "--json", "--set", NAME).decode("utf-8"))
    assert found["scenario"]["name"] == "Übung α"


@pytest.mark.slow
def test_files_are_utf_8_in_any_locale(tmp_path):
    predicted(tmp_path, C, "--set", NAME, "--markdown", "Übung α.md", "--html", "Übung α.html")
    assert "Übung α" in (tmp_path / "Übung α.md").read_text(encoding="utf-8")
    assert "Übung α" in (tmp_path / "Übung α.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "closed"),
    [*((name, "0<&- 1>&- 2>&-") for name in COMMANDS), *((name, f"{n}>&-") for name in SOME for n in range(3))],
)
def test_streams_may_be_closed(name, closed, tmp_path):
    answer = run(name, tmp_path, "bash", "-c", f'exec "$@" {closed}', "bash")
    check_quiet(answer)
    for made in (tmp_path / "out").glob("*.*"):
        assert made.read_text(encoding="utf-8").lstrip().startswith(("<svg", "<!doctype html>", "###")), made


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_half_an_answer_is_a_failure(unbuffered, tmp_path):
    within = 'ulimit -f 1; exec "$@" >answer'
    answer = run("predict", tmp_path, "bash", "-c", within, "bash", environment={"PYTHONUNBUFFERED": unbuffered})
    check_quiet(answer, 1)
    assert 0 < (tmp_path / "answer").stat().st_size <= 1024


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_reader_may_leave_early(name, tmp_path):
    answer = run(name, tmp_path, "bash", "-c", '"$@" | head -n 1; exit "${PIPESTATUS[0]}"', "bash")
    check_quiet(answer, int(name == "help"))  # help is written by Rich, which ends so
    assert len(answer.stdout.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")  # noqa: PTH110
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_a_sentence(name, tmp_path):
    answer = run(name, tmp_path, "bash", "-c", 'exec "$@" >/dev/full', "bash")
    check_quiet(answer, 1)
    assert answer.stderr.decode().rstrip().endswith("no space left on device")
    assert run(name, tmp_path, "bash", "-c", 'exec "$@" >/dev/full 2>/dev/full', "bash").returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_terminals_may_be_narrow_and_dumb(name, tmp_path):
    answer = run(name, tmp_path, environment={"COLUMNS": "40", "TERM": "dumb", "NO_COLOR": "1"})
    check_quiet(answer)
    assert b"\x1b" not in answer.stdout


MOMENTS = ("_multiarray_umath", "_yaml", "mtrand")
"""Libraries that a command loads: as it begins, when it reads its first file, and when it predicts."""


@pytest.fixture
def interruptible():
    """A child started in the background would ignore Ctrl-C, as shells have it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process has loaded")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", ["chart", "plan", "validate"])
def test_a_signal_ends_a_command_without_a_traceback(name, number, code, moment, tmp_path):
    words = [str(word).replace("{out}", str(tmp_path)) for word in COMMANDS[name]]
    command = [sys.executable, "-m", "sightline", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    until(lambda: process.poll() is not None or moment in Path(f"/proc/{process.pid}/maps").read_text())
    process.send_signal(number)
    answer, said = (written.decode() for written in process.communicate(timeout=PATIENCE_S))
    # A command may have ended before. One that has answered may be ending, when Python handles signals no longer.
    assert process.returncode in ((0, code, -number) if answer else (0, code))
    assert [line for line in filter(None, said.splitlines()) if not line.startswith("sightline: ")] == []
    assert [made.name for made in tmp_path.iterdir() if made.suffix == ".part"] == []


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_ends_quietly(number, tmp_path):
    command = [sys.executable, "-m", "sightline", "ui", "--port", "0", "--no-browser"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    home = os.environ | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(command, env=home, **pipes) as process:
        assert "Ctrl-C" in process.stdout.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "", "")
