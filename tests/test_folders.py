"""The folder of a user among the temporary ones."""

import os

import pytest

from sightline import folders

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have owners and modes on POSIX alone")


def test_what_is_kept_goes_into_a_folder_that_nobody_else_can_change(monkeypatch, tmp_path):
    monkeypatch.setattr(folders, "gettempdir", lambda: str(tmp_path))
    own = folders.temporary()
    assert own == folders.temporary() == tmp_path / f"sightline-{os.getuid()}"
    assert own.stat().st_mode & 0o077 == 0
    own.chmod(0o777)
    other = folders.temporary()
    assert other != own
    assert other.stat().st_mode & 0o077 == 0
    own.rmdir()
    own.symlink_to(other)
    assert folders.temporary() not in (own, other)
