"""Whatever the model: its plan is launched, or what stands in the way is said in sentences."""

import pytest

from launching.launched import possible
from sightline import catalog
from sightline.errors import InputError
from sightline.launching import write
from sightline.launching.registry import WRITERS

MODELS = sorted(catalog.names("models"))[::4]


@pytest.mark.parametrize("framework", WRITERS)
def test_every_model_is_launched_or_refused(framework):
    launched = 0
    for name in MODELS:
        scenario = possible({"framework": framework}, model=name, cluster="8x h100-sxm-80gb")
        if scenario is None:
            continue
        try:
            launch = write(scenario)
        except InputError as error:
            assert all(name in problem for problem in error.problems)
            continue
        launched += 1
        assert launch.framework == framework
        assert all(text.strip() for text in launch.files.values())
    assert launched >= 5
