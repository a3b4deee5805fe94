"""Every command works, or says one sentence, without network, home, user, disk to write to, or a folder to be in."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hard_places import COMMANDS, SERVING, WRITING, check_quiet, is_possible, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="places are made by tools of Linux"),
]
NO_NETWORK = ("unshare", "-n") if os.getuid() == 0 else ("unshare", "-r", "-n")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
UNKNOWN = ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")
READ_ONLY = """
mount --rbind / /
for folder in $(awk '{print $5}' /proc/self/mountinfo | sort -u); do
    case $folder in /proc*|/sys*|/dev*) ;; *) mount -o remount,bind,ro "$folder" 2>/dev/null ;; esac
done
mount -t tmpfs -o ro none /dev/shm 2>/dev/null
exec "$@"
"""
"""Makes every file system read-only, as in a container that is started so, and runs a command."""
NOTHING_CAN_BE_WRITTEN = ("unshare", "-m", "bash", "-c", READ_ONLY, "bash")
REFUSES_TO_CONNECT = """
import socket


def refuse(self, address):
    if self.family != socket.AF_UNIX and not str(address[0]).startswith(("127.", "::1", "localhost")):
        raise SystemExit(f"somebody connects to {address}")
    return connect(self, address)


connect, socket.socket.connect = socket.socket.connect, refuse
"""


def other_user(*before):
    """Skip where the tests do not run as root, or another user cannot run this interpreter."""
    if os.getuid() != 0 or not is_possible(*before, sys.executable, "-c", "import sightline", "#"):
        pytest.skip("only root can run commands as another user")
    return before


@pytest.fixture
def folder():
    """A folder that every user can reach and write to."""
    with tempfile.TemporaryDirectory(prefix="sightline-hard-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o777)
        yield Path(made)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_needs_a_network(name, tmp_path):
    if not is_possible(*NO_NETWORK):
        pytest.skip("unshare may not take the network away here")
    check_quiet(run(name, tmp_path, *NO_NETWORK))


@pytest.mark.parametrize("name", ["predict", "report", "plan", "catalog", "query"])
def test_no_command_asks_for_another_machine(name, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(REFUSES_TO_CONNECT)
    check_quiet(run(name, tmp_path, environment={"PYTHONPATH": str(tmp_path)}))


@pytest.mark.parametrize("name", COMMANDS)
def test_home_and_working_folder_may_be_read_only(name, folder):
    home = folder / "home"
    home.mkdir()
    home.chmod(0o555)
    before = other_user(*NOBODY) if os.getuid() == 0 else ()
    check_quiet(run(name, folder, *before, environment={"HOME": str(home)}, cwd=home))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_user_may_have_neither_a_name_nor_a_home(name, folder):
    before = other_user(*UNKNOWN)
    unknown = dict.fromkeys(("HOME", "USER", "LOGNAME"))
    check_quiet(run(name, folder, *before, environment=unknown))


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("chart", "report", "query")])
def test_nothing_need_be_written(name, tmp_path):
    if not is_possible(*NOTHING_CAN_BE_WRITTEN):
        pytest.skip("unshare may not mount here")
    check_quiet(run(name, tmp_path, *NOTHING_CAN_BE_WRITTEN))


@pytest.mark.parametrize(("name", "code", "files"), [("chart", 2, 1), ("report", 2, 2), ("query", 1, 1)])
def test_what_has_to_be_written_and_cannot_be_is_a_sentence_each(name, code, files, tmp_path):
    if not is_possible(*NOTHING_CAN_BE_WRITTEN):
        pytest.skip("unshare may not mount here")
    answer = run(name, tmp_path, *NOTHING_CAN_BE_WRITTEN)
    check_quiet(answer, code)
    assert len(answer.stderr.splitlines()) == files


@pytest.mark.parametrize("name", WRITING)
def test_a_full_disk_is_a_sentence_and_leaves_nothing_half_written(name, tmp_path):
    caches = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")}
    answer = run(name, tmp_path, "bash", "-c", 'ulimit -f 1; exec "$@"', "bash", environment=caches)
    check_quiet(answer, 1)
    assert "/out" in answer.stderr.decode()
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not [path for path in left if path.suffix == ".part" or ".sightline-" in str(path)]
    assert all(path.stat().st_size <= 1024 for path in left)


@pytest.mark.parametrize("command", [("simulate", SERVING), ("plan", SERVING)])
def test_a_numpy_that_numba_does_not_know_is_a_sentence(command, tmp_path):
    (tmp_path / "numba.py").write_text('raise ImportError("Numba needs NumPy 2.3 or less. Got NumPy 2.9.")')
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    words = [sys.executable, "-m", "sightline", *map(str, command)]
    answer = subprocess.run(words, env=environment, check=False, capture_output=True)
    check_quiet(answer, 1)
    assert b"Got NumPy 2.9" in answer.stderr


@pytest.mark.parametrize("name", ["predict", "plan", "catalog", "report", "runs"])
def test_the_working_folder_may_be_gone(name, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    check_quiet(run(name, tmp_path, "bash", "-c", 'rmdir "$PWD"; exec "$@"', "bash", cwd=gone))
