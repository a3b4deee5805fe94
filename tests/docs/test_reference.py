"""What the documentation takes from the code is up to date and complete."""

import csv
import importlib.util
import re
import sys
from pathlib import Path

import pytest
import typer.main

from sightline.cli.app import command_line
from sightline.loading import parts, plans
from sightline.loading.operations import HEAD, OPERATORS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NOW = "run scripts/update_reference.py"
KEYS = [parts.SCENARIO, plans.POOL, HEAD, *(asked.keys for asked in OPERATORS.values())]


@pytest.fixture(scope="module")
def update_reference():
    """The script that writes the generated parts."""
    sys.path.insert(0, str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("update_reference", ROOT / "scripts" / "update_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(ROOT / "scripts"))


def test_the_table_of_offers_has_what_differs_between_release_lines(update_reference):
    rows = {
        (row["what"], row["key"]): row
        for row in csv.DictReader(update_reference.offers().splitlines())
        if row["name"] == "megatron"
    }
    stated = {
        ("offers", "zero_stage"): ("0, 1, 3", "2019, 2022, 0.2: 0, 1"),
        ("defaults", "attention"): ("flash", "2019, 2022: eager"),
        ("defaults", "tensor_overlap"): ("all", "2019: none; 2022: backward"),
        ("defaults", "overlap_gradient_reduce"): ("True", "2019, 2022: False"),
        ("defaults", "fp8_recipe"): ("current", "2019, 2022, 0.2, 0.5, 0.8, 0.10, 0.12: delayed"),
    }
    for key, (values, differing) in stated.items():
        assert (rows[key]["values"], rows[key]["release lines that differ"]) == (values, differing)


def test_the_table_of_offers_is_up_to_date(update_reference):
    assert (DOCS / "offers.csv").read_text(encoding="utf-8") == update_reference.offers(), NOW


def test_the_schema_is_up_to_date(update_reference):
    assert (DOCS / "scenario.schema.json").read_text(encoding="utf-8") == update_reference.scenario_schema(), NOW


def test_no_argument_or_option_takes_nothing(update_reference):
    assert not re.findall(r"`None`|<bool>", update_reference.commands())


@pytest.mark.parametrize(
    ("page", "part"),
    [
        ("commands", "commands"),
        ("catalog", "entries"),
        ("scenario", "training_workload"),
        ("scenario", "generation_workload"),
        ("scenario", "serving_workload"),
        ("scenario", "training_plan"),
        ("scenario", "generation_plan"),
        ("scenario", "frameworks"),
        ("scenario", "engines"),
        ("checking", "checked"),
    ],
)
def test_generated_parts_are_up_to_date(update_reference, page, part):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert getattr(update_reference, part)().strip() in text, NOW


def test_every_command_and_option_has_help(update_reference):
    for name, command in update_reference.all_commands(typer.main.get_command(command_line())).items():
        assert command.help, name
        assert [p.name for p in command.params if not p.help] == [], name


@pytest.mark.parametrize("known", KEYS)
def test_every_key_of_a_scenario_is_documented(known):
    text = (DOCS / "scenario.md").read_text(encoding="utf-8")
    assert [key for key in known if f"`{key}`" not in text and f"## {key}" not in text] == []
