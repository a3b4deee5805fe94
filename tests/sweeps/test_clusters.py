"""Chunks on real workers, of which some are killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sweep_work import refuse, square, square_or_die
from waiting import PATIENCE_S

from sightline.errors import InputError, WorkError
from sightline.progress import Progress
from sightline.sweeps import pools
from sightline.sweeps.chunks import run_chunks

pytestmark = pytest.mark.slow
KINDS = ("local:2", "ray:2", "dask:2")


@pytest.fixture(autouse=True)
def workers_find_the_tests(monkeypatch):
    """Workers are processes of their own, which look for modules where they are told to."""
    here = str(Path(__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setattr(sys, "path", [here, *sys.path])


def deadly(tmp_path, lives, count):
    """Chunks of which the third kills its worker, as often as it has lives."""
    marks = tmp_path / "marks"
    marks.mkdir()
    return [{"n": n, "name": f"n={n}", "deadly": n == 2, "marks": str(marks), "lives": lives} for n in range(count)]


def squares(parts):
    return sorted(part.table["square"].item() for part in parts)


@pytest.mark.parametrize("workers", KINDS)
def test_what_a_killed_worker_was_doing_is_done_again(workers, tmp_path, capfd):
    chunks = deadly(tmp_path, lives=1, count=6)
    parts = list(run_chunks(square_or_die, chunks, where=str(tmp_path / "sweep"), workers=workers))
    assert squares(parts) == [0, 1, 4, 9, 16, 25]
    assert len(list((tmp_path / "marks").iterdir())) == 1
    assert os.getpid() not in {part.table["process"].item() for part in parts}
    # All is kept, so that no worker is asked for again.
    again = run_chunks(square_or_die, chunks, where=str(tmp_path / "sweep"), workers="dask:nowhere:1")
    assert squares(again) == [0, 1, 4, 9, 16, 25]
    assert capfd.readouterr().err == ""


def test_what_a_lost_node_of_ray_was_doing_is_done_by_the_others():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 2, "object_store_memory": 100_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    try:
        other = cluster.add_node(**size)
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        parts = run_chunks(square, [{"n": n, "seconds": 1} for n in range(12)], workers="ray")
        first = next(parts)
        cluster.remove_node(other, allow_graceful=False)
        assert squares([first, *parts]) == [n * n for n in range(12)]
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.parametrize("workers", KINDS)
def test_a_chunk_that_kills_again_and_again_is_named_and_all_others_are_kept(workers, tmp_path, capfd):
    chunks = deadly(tmp_path, lives=1000, count=4)
    parts = run_chunks(square_or_die, chunks, where=str(tmp_path / "sweep"), workers=workers)
    with pytest.raises(WorkError, match=rf"chunk 3 of 4 \(n=2\): the workers of '{workers}' died"):
        list(parts)
    assert len(list((tmp_path / "sweep" / "parts").iterdir())) == 3
    assert capfd.readouterr().err == ""


def test_a_stopped_sweep_leaves_running_chunks_behind():
    chunks = [{"n": n, "seconds": 0 if n < 2 else 3600} for n in range(4)]
    progress = Progress(lambda state: progress.cancel() if state.done == 2 else None, every_s=0)
    assert squares(run_chunks(square, chunks, workers="local:2", progress=progress)) == [0, 1]


@pytest.mark.parametrize(
    ("key", "error", "sentence"),
    [
        ("wrong", InputError, "n is wrong\nso is another"),
        ("failing", WorkError, "there is no more paper"),
        ("buggy", RuntimeError, "ZeroDivisionError: a bug"),
    ],
)
def test_what_a_chunk_raises_on_a_worker_is_raised_here(key, error, sentence):
    with pytest.raises(error, match=sentence):
        list(run_chunks(refuse, [{"n": n, key: 2} for n in range(4)], workers="local:2"))


@pytest.mark.parametrize("count", [0, 1])
def test_a_cluster_that_is_there_is_used_and_stays(count, monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr(pools, "_DASK_ANSWERS_WITHIN", "2s")
    with LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster:
        workers = f"dask:{cluster.scheduler_address}"
        parts = run_chunks(square, [{"n": n} for n in range(3)], workers=workers)
        if count:
            assert squares(parts) == [0, 1, 4]
        else:
            with pytest.raises(WorkError, match=f"--workers is '{workers}': the cluster has no workers"):
                list(parts)
        assert cluster.status.name == "running"


SWEEP = """
import sys
from sweep_work import square
from sightline.errors import WorkError
from sightline.sweeps.chunks import run_chunks

try:
    for part in run_chunks(square, [{"n": n, "seconds": n} for n in range(9)], workers=sys.argv[1]):
        print(part.chunk, flush=True)
except WorkError as error:
    print(error)
"""


def test_a_cluster_of_dask_that_goes_away_is_a_sentence_and_no_log():
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        workers = f"dask:{cluster.scheduler_address}"
        words = [sys.executable, "-c", SWEEP, workers]
        sweep = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert sweep.stdout.readline() == "0\n"
        cluster.close()
        out, err = sweep.communicate(timeout=PATIENCE_S)
    assert f"--workers is '{workers}'" in out.splitlines()[-1]
    assert err == ""
