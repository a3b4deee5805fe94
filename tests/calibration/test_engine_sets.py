"""Sets of the manifest, what they are fitted to, and what the catalog's entries say of them."""

from dataclasses import replace

import pytest
from engine_cases import cases_of
from engine_fit import KINDS, PRIORS, SETS, fits_of, separate_lines

from sightline.catalog import entry, names
from sightline.validation.cases import publisher
from sightline.validation.evaluation import suites

PUBLISHED = suites()
OWN = {suite.name: suite for suite in PUBLISHED}


def test_every_fitted_entry_is_of_a_set_and_the_other_way_round():
    fitted = {name for name in names("inference") if entry("inference", name)["evidence"] == "fitted"}
    assert fitted == {one.engine for one in SETS}
    for engine in fitted:
        assert list(entry("inference", engine).get("versions", {})) == separate_lines(engine)


def test_free_constants_are_supported_and_were_asked_for():
    for one in SETS:
        stated = entry("inference", one.engine)
        stated = stated["versions"][one.line] if one.line else stated
        assert set(stated["free"]) | set(stated["held"]) == set(one.free)
        assert all(rows >= 5 for rows in stated["rows"]["noticing"].values())


def test_a_set_counts_fit_cases_of_its_engine_and_lines_only():
    (eager,) = (one for one in SETS if one.engine == "transformers")
    found = cases_of(eager, PUBLISHED)
    fit = [case for case in OWN["qwen-transformers"].cases if case.split == "fit"]
    assert len(found) == sum(case.scenario["plan"]["framework"] == "transformers" for case in fit) < len(fit)
    assert {case.source for case in found} == {"QwenLM/Qwen"}
    assert sum(case.weight for case in found) == pytest.approx(1.0)


def test_sources_are_repositories_or_whoever_is_named_first():
    assert (
        publisher(OWN["lmdeploy-static-batch"].source)
        == publisher(OWN["lmdeploy-first-token"].source)
        == "InternLM/lmdeploy"
    )
    stated = replace(OWN["lmdeploy-static-batch"], source="docs.nvidia.com guide, a table; read from a data folder")
    assert publisher(stated.source) == "docs.nvidia.com guide"


def test_engines_that_launch_from_python_start_at_its_launches():
    assert KINDS["eager"]["launch_s"].value > 3 * PRIORS["launch_s"].value
    assert {one.engine for one in SETS if one.kind == "eager"} == {"transformers", "litgpt"}
    found = fits_of("transformers", lambda of: cases_of(of, PUBLISHED))[""][1]
    assert found.asked["launch_s"] == KINDS["eager"]["launch_s"]


def test_a_rerun_reproduces_the_shipped_constants():
    """Of an engine whose suite the catalog restates, so that no data folder is needed."""
    (_, fit) = fits_of("transformers", lambda of: cases_of(of, PUBLISHED))[""]
    stated = entry("inference", "transformers")
    assert list(fit.supported.constants) == stated["free"]
    assert {name: stated["constants"][name] for name in stated["free"]} == dict(fit.supported.constants)
