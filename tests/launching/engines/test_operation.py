"""What of a plan that serves a load no command says is said with the launch."""

import pytest
from serving_scenarios import serving

from sightline.launching import write

ADAPTERS = {"count": 4, "rank": 8}
SCALING = {"min": 1, "max": 2, "startup": "60 s"}


@pytest.mark.parametrize(
    ("key", "value"),
    [("scheduler", "priority"), ("router", "least-load"), ("lora_adapters", ADAPTERS), ("autoscale", SCALING)],
)
def test_what_operators_do_is_named(key, value):
    def named(**plan: object) -> bool:
        launch = write(serving(cluster="2x h100-sxm-80gb", plan={"tensor_parallel": 1, **plan}))
        return any(note.startswith(f"plan.{key}") for note in launch.without_counterpart)

    assert named(**{key: value})
    assert not named()
