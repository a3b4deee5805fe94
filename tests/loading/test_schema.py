"""The JSON schema takes what loads, and refuses what no loader would."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from sightline.catalog.yaml12 import parse_all
from sightline.loading.schema import schema

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = [path for path in sorted(EXAMPLES.rglob("*.yaml")) if path.parent.name != "studies"]
PLAIN = {"model": "llama-3-8b", "cluster": "8x h100-sxm-80gb"}


@pytest.fixture(scope="module")
def validator() -> Draft7Validator:
    Draft7Validator.check_schema(schema())
    return Draft7Validator(schema())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_fit_the_schema(validator: Draft7Validator, path: Path) -> None:
    for document in parse_all(path.read_text(encoding="utf-8")):
        assert not [error.message for error in validator.iter_errors(document)]


@pytest.mark.parametrize(
    "stated",
    [
        {"plan": {"tensor_paralel": 2}},
        {"plan": {"zero_stage": 4}},
        {"plan": {"kv_tiers": [{"size": "1 GB"}]}},
        {"workload": {"task": "pretrain", "packing": "yes"}},
        {"cluster": {"devices": "8x h100-sxm-80gb", "network": {"bandwith": 1}}},
        {"models": "llama-3-8b"},
    ],
)
def test_mistakes_do_not_fit_it(validator: Draft7Validator, stated: dict[str, Any]) -> None:
    assert not validator.is_valid({**PLAIN, **stated})


def test_keys_say_what_they_mean() -> None:
    plan = schema()["definitions"]["scenario"]["properties"]["plan"]["properties"]
    assert [key for key, stated in plan.items() if not stated.get("description")] == []
