"""A launch is written by the module of its framework; what no module knows is refused."""

import pytest
from training_scenarios import training

from sightline.errors import InputError
from sightline.launching import Launch, read, save, write


def test_a_framework_that_nobody_launches_is_refused():
    with pytest.raises(InputError, match=r"plan\.framework is reference, for which no launch is written"):
        write(training())


def test_a_file_of_no_framework_is_refused(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"name": "else"}')
    with pytest.raises(InputError, match="of no framework that can be read back"):
        read(path)


def test_a_missing_file_is_refused():
    with pytest.raises(InputError, match=r"nowhere\.json"):
        read("nowhere.json")


class TestSave:
    LAUNCH = Launch(framework="x", command="echo a", files={"a.json": "{}", "deep/b.txt": "b"})

    def test_files_and_command_are_written(self, tmp_path):
        paths = save(self.LAUNCH, tmp_path / "new")
        assert [p.relative_to(tmp_path / "new").as_posix() for p in paths] == ["launch.sh", "a.json", "deep/b.txt"]
        assert paths[1].read_text() == "{}"
        assert "echo a" in paths[0].read_text()

    def test_the_same_again_is_no_mistake(self, tmp_path):
        assert save(self.LAUNCH, tmp_path) == save(self.LAUNCH, tmp_path)

    def test_other_content_is_kept(self, tmp_path):
        (tmp_path / "a.json").write_text("mine")
        with pytest.raises(InputError, match="is there with other content"):
            save(self.LAUNCH, tmp_path)
        assert not (tmp_path / "launch.sh").exists()
        save(self.LAUNCH, tmp_path, overwrite=True)
        assert (tmp_path / "a.json").read_text() == "{}"

    def test_a_folder_that_cannot_be_is_a_wrong_request(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match="cannot write"):
            save(self.LAUNCH, tmp_path / "file")
