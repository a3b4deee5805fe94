"""Files that several servers write at the same time."""

from concurrent.futures import ThreadPoolExecutor

from sightline.whole_files import write_whole


def test_files_are_whole_whoever_else_writes_them(tmp_path):
    path = tmp_path / "page" / "vega.js"
    contents = [bytes([letter]) * 1_000_000 for letter in b"abcdefgh"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: write_whole(path, content), contents))
    assert path.read_bytes() in contents
    assert list(path.parent.iterdir()) == [path]


def test_texts_are_written_as_utf_8(tmp_path):
    write_whole(tmp_path / "a.json", "µs\n")
    assert (tmp_path / "a.json").read_bytes() == "µs\n".encode()
