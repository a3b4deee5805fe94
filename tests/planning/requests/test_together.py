"""Spaces that are searched at once against each searched alone."""

import pytest

from sightline.loading.spaces import load_spaces
from sightline.planning.request_spaces import together
from sightline.planning.search import plan

COUNTS = (1, 2, 4, 6, 8, 16)


def asked(cluster: object) -> dict[str, object]:
    return {
        "model": "llama-3.1-8b",
        "cluster": cluster,
        "workload": {"task": "finetune", "sequence_length": 1024, "global_batch": 48},
        "plan": {"framework": "deepspeed", "adapter": "lora", "schedule": "1f1b", "attention": "flash"},
    }


@pytest.mark.parametrize("device", ["rtx-4090", "rtx-3090", "a100-sxm-80gb"])
def test_parts_of_a_server_are_searched_as_they_are_alone(device: str) -> None:
    clusters = [f"{count}x {device}" for count in COUNTS]
    whole = plan(asked({"any": clusters}), top=1)
    alone = [plan(asked(cluster), top=1) for cluster in clusters]
    assert whole.evaluated == sum(answer.evaluated for answer in alone)
    assert whole.feasible == sum(answer.feasible for answer in alone)
    assert whole.plans[0].value == pytest.approx(min(answer.plans[0].value for answer in alone), rel=1e-9)


def test_the_devices_of_a_full_mesh_are_no_part_of_a_larger_one() -> None:
    switched = load_spaces(asked({"any": ["2x a100-sxm-80gb", "8x a100-sxm-80gb", "16x a100-sxm-80gb"]}))
    meshed = load_spaces(asked({"any": ["2x mi300x", "8x mi300x"]}))
    assert len(together(switched)) == 1
    assert {space.scenario.cluster.intra_node.topology for space in meshed} == {"full-mesh"}
    assert len(together(meshed)) == 2
