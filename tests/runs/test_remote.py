"""A store in S3, against a server of our own, and behind protocols that cannot write at once."""

import json
import multiprocessing
import os
import subprocess
import sys

import pytest
from waiting import PATIENCE_S

from sightline.errors import WorkError
from sightline.runs import open_store
from sightline.runs.exchange import from_archive, to_archive

SERVER = """
import sys, time
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(scope="module")
def s3():
    """The URL of an empty bucket; the server runs in a process of its own and ends with it."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    host, port = server.stdout.readline().split()
    patch = pytest.MonkeyPatch()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        patch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem(endpoint_url=f"http://{host}:{port}").mkdir("bucket")
    yield "s3://bucket/runs"
    patch.undo()
    server.stdin.close()
    server.wait(timeout=PATIENCE_S)
    server.stdout.close()
    server.stderr.close()


def write_some(place, count):
    store = open_store(place)
    for number in range(count):
        writer = store.begin(f"{os.getpid()} {number}", key=f"{os.getpid()}-{number}")
        writer.sample({"turn": 0})
        writer.sample({"turn": 1})
        writer.finish(result={"time_s": 0.5}, rows=[{"operator": "matmul"}])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_store_in_s3(s3, tmp_path):
    store = open_store(s3)
    assert store.runs() == []
    writer = store.begin("followed")
    writer.sample({"turn": 0})
    reader = open_store(s3)
    assert reader.find("latest").status == "running"
    assert reader.samples(writer.run).height == 1
    run = writer.finish(result={"time_s": 1.0}, rows=[{"operator": "matmul"}])
    assert reader.find(run.id) == run
    assert reader.rows(run).to_dicts() == [{"operator": "matmul"}]

    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_some, args=(s3, 3)) for _ in range(2)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
        assert process.exitcode == 0
    assert len(reader.ended({"ok"})) == 6

    local = open_store(str(tmp_path / "local"))
    (tmp_path / "runs.zip").write_bytes(to_archive(reader, reader.runs()))
    from_archive(local, tmp_path / "runs.zip")
    assert local.runs() == reader.runs()

    reader.delete([run])
    assert len(open_store(s3).runs()) == 6
    with pytest.raises(WorkError, match="it does not exist"):
        open_store("s3://no-such-bucket/runs").begin("x")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_command_line_uses_s3(s3):
    write_some(f"{s3}-cli", 2)
    command = [sys.executable, "-m", "sightline", "runs"]
    sql = "SELECT count(*) AS samples, sum(turn) AS turns FROM samples"
    answer = subprocess.run(
        [*command, "query", sql, "--store", f"{s3}-cli", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(answer.stdout) == [{"samples": 4, "turns": 2}]


def test_where_files_grow_in_place_they_are_renamed(tmp_path):
    """``local://`` is fsspec's way to a folder: no object store."""
    pytest.importorskip("fsspec")
    store = open_store(f"local://{tmp_path}/runs")
    run = store.begin("x").finish(result={"time_s": 1.0}, rows=[{"operator": "matmul"}])
    assert store.find(run.id) == run
    assert sorted(path.name for path in (tmp_path / "runs" / run.id).iterdir()) == ["rows.parquet", "run.json"]
