"""Process trees."""

import os
import subprocess
import sys

from sightline.measurement.processes import tree

TREE = """
import subprocess, sys, time
child = [sys.executable, "-c", "import time; held = bytearray(50_000_000); print('up', flush=True); time.sleep(1000)"]
started = [subprocess.Popen(child, stdout=subprocess.PIPE, start_new_session=new) for new in (True, False)]
for process in started:
    process.stdout.readline()
print("up", flush=True)
time.sleep(1000)
"""


def test_a_family_is_its_descendants_and_their_memory():
    family = tree.Descendants(os.getpid())
    before = set(family.look())
    root = subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE)
    try:
        root.stdout.readline()
        born = family.look() - before
        assert root.pid in born
        assert len(born) == 3
        assert set(tree.Descendants(root.pid).look()) == born - {root.pid}
        assert 100e6 < tree.memory_held(born) < 300e6
    finally:
        ended = tree.Descendants(root.pid).look()
        for pid in (*ended, root.pid):
            os.kill(pid, 9)
        root.wait()
        root.stdout.close()
    # The children are orphans now, somebody else's to collect; the root is gone.
    assert root.pid not in family.look()


def test_who_is_gone_holds_nothing():
    assert tree.memory_held([2**30]) == 0
    assert tree.marked("SIGHTLINE_CASE", "nobody bears this") == []


def test_names_with_spaces_and_parentheses_are_read(tmp_path):
    odd = tmp_path / "a (b) c"
    odd.symlink_to(sys.executable)
    process = subprocess.Popen([odd, "-c", "print('up', flush=True); import time; time.sleep(1000)"], stdout=-1)
    try:
        process.stdout.readline()
        assert process.pid in tree.Descendants(os.getpid()).look()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
