"""What the table of commands and answers names is there."""

import pytest

from sightline.commands import ANSWERS, COMMANDS
from sightline.on_demand import named

PATHS = {
    *(f"sightline.{path}" for row in COMMANDS.values() for path in row if isinstance(path, str) and ":" in path),
    *(path for row in ANSWERS.values() for path in row if isinstance(path, str) and ":" in path),
}


@pytest.mark.parametrize("path", sorted(PATHS))
def test_everything_that_is_named_is_there(path):
    assert named(path) is not None
