import pytest

from sightline.anchors.files import anchor_names, delete_anchor, read_anchor, save_anchor
from sightline.errors import InputError
from sightline.runs import open_store


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "runs"))


def test_what_is_saved_is_listed_read_and_deleted(store):
    save_anchor(store, "lab", {"models": ["llama-2-7b"]})
    assert anchor_names(store) == ["lab"]
    assert read_anchor(store, "lab") == {"schema": 1, "name": "lab", "models": ["llama-2-7b"]}
    delete_anchor(store, "lab")
    assert anchor_names(store) == []


def test_saving_again_replaces_and_leaves_no_run(store):
    for models in (["one"], ["other"]):
        save_anchor(store, "lab", {"models": models})
    assert read_anchor(store, "lab")["models"] == ["other"]
    assert store.runs() == []


@pytest.mark.parametrize("name", ["", "../lab", ".lab", "a/b", "a b"])
def test_a_name_that_is_no_file_name_is_refused(store, name):
    with pytest.raises(InputError, match="anchor name"):
        save_anchor(store, name, {})


def test_an_unknown_name_says_the_nearest(store):
    save_anchor(store, "our-cluster", {})
    for act in (read_anchor, delete_anchor):
        with pytest.raises(InputError, match=r"no anchor 'our-clustre' .* did you mean 'our-cluster'"):
            act(store, "our-clustre")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": "x"}', b'{"schema": 1e999}', b"[" * 99_999])
def test_a_file_that_cannot_be_read_is_said_to_be(store, content):
    save_anchor(store, "lab", {})
    store.storage.write(".anchors/lab.json", content)
    with pytest.raises(InputError, match="'lab'"):
        read_anchor(store, "lab")


def test_a_file_of_a_newer_schema_is_refused(store):
    save_anchor(store, "lab", {"version": "9.0"})
    store.storage.write(".anchors/lab.json", b'{"schema": 2, "version": "9.0"}')
    with pytest.raises(InputError, match="newer version"):
        read_anchor(store, "lab")
