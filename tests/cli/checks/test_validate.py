"""``sightline validate``."""

import json

import pytest

from sightline.validation.evaluation import evaluate

KEYS = {"suite", "quantity", "split", "cases", "unanswered", "mape", "median_ape", "p90_ape", "max_ape", "bias"}
KEYS |= {"coverage", "half_width", "reasons"}


@pytest.fixture(autouse=True)
def published_only(monkeypatch):
    """The tables in the catalog are enough here; the bulk sets have their own tests."""
    monkeypatch.delenv("SIGHTLINE_DATA", raising=False)


@pytest.fixture(scope="module")
def evaluated():
    """Results by the name of their suite."""
    return {}


@pytest.fixture(autouse=True)
def evaluated_once(monkeypatch, evaluated):
    """No suite is predicted for two tests."""

    def results_of(suite):
        if suite.name not in evaluated:
            evaluated[suite.name] = evaluate([suite])
        return evaluated[suite.name]

    monkeypatch.setattr(
        "sightline.validation.evaluation.evaluate",
        lambda suites, **_: [result for suite in suites for result in results_of(suite)],
    )


def test_the_errors_of_each_suite_are_a_table(in_process):
    code, out, err = in_process("validate")
    assert (code, err) == (0, "")
    headings = ["part", "cases", "error", "median", "p90", "max", "bias", "inside", "half-width"]
    assert any(line.split() == headings for line in out.splitlines())
    assert any("test" in line and "%" in line for line in out.splitlines())


def test_json_has_the_documented_keys(in_process):
    code, out, _ = in_process("validate", "--json")
    suites = json.loads(out)["suites"]
    assert code == 0
    assert suites
    assert all(set(suite) == KEYS for suite in suites)
    assert {suite["split"] for suite in suites} <= {"fit", "test"}


def test_cases_stand_behind_the_errors(in_process):
    suites = json.loads(in_process("validate", "--cases", "--json")[1])["suites"]
    for suite in suites:
        errors = [abs(a["predicted"] / a["measured"] - 1) for a in suite["answers"] if a["predicted"] is not None]
        assert len(suite["answers"]) == suite["cases"]
        if errors:
            assert sum(errors) / len(errors) == pytest.approx(suite["mape"])


def test_without_a_data_folder_a_line_says_what_it_adds(in_process):
    assert "--data DIR" in in_process("validate")[1].splitlines()[-1]
    assert "--data" not in in_process("validate", "korthikanti-2022-table5")[1]


def test_a_beginning_or_a_pattern_chooses_suites(in_process):
    for asked in ("korthikanti-2022", "korth*"):
        suites = json.loads(in_process("validate", asked, "--json")[1])["suites"]
        assert {s["suite"].rpartition("-")[0] for s in suites} == {"korthikanti-2022"}
        assert len({s["suite"] for s in suites}) == 3


def test_a_suite_that_needs_the_data_folder_says_so(in_process):
    code, out, err = in_process("validate", "splitwise-decode")
    assert (code, out) == (2, "")
    assert "splitwise-decode" in err
    assert "--data" in err


def test_one_suite_can_be_asked_for(in_process):
    name = json.loads(in_process("validate", "--json")[1])["suites"][0]["suite"]
    code, out, _ = in_process("validate", name, "--cases")
    assert code == 0
    assert name in out
    assert "predicted" in out


def test_the_picture_is_written(in_process, tmp_path):
    code, _, err = in_process("validate", "--chart", tmp_path / "accuracy.svg")
    assert code == 0, err
    assert "measured" in (tmp_path / "accuracy.svg").read_text()


def test_sources_left_out_are_rows_of_the_usual_keys(in_process):
    code, out, err = in_process("validate", "narayanan", "--left-out", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    (source,) = found["suites"]
    assert set(source) == KEYS
    assert (source["suite"], source["split"]) == ("narayanan-2021", "left-out")
    assert found["left_out"]["dense"]["mape"] == pytest.approx(source["mape"])
    assert set(found["left_out_suites"]) == {"narayanan-2021-table1"}
    assert "matmul_slowdown/all/" in found["constants"]


def test_sources_left_out_are_a_table_with_means(in_process):
    code, out, _ = in_process("validate", "narayanan", "--left-out")
    assert code == 0
    assert "left-out" in out
    assert "half-width" in out


def test_memory_has_no_steps_to_leave_out(in_process):
    code, _, err = in_process("validate", "korthikanti-2022-fig1", "--left-out")
    assert code == 2
    assert "--left-out: " in err


def test_locked_sources_are_shown_alone(in_process, monkeypatch):
    chosen = []
    monkeypatch.setattr("sightline.validation.evaluation.evaluate", lambda suites, **_: chosen.extend(suites) or [])
    code, _, err = in_process("validate", "--locked", "--json")
    assert (code, err) == (0, "")
    assert "mt-nlg-530b" in {suite.name for suite in chosen}
    assert all(suite.locked for suite in chosen)


def test_a_locked_source_is_asked_for_by_one_option(in_process):
    code, _, err = in_process("validate", "mt-nlg-530b")
    assert (code, "--locked" in err) == (2, True)
    code, _, err = in_process("validate", "--locked", "--left-out")
    assert (code, "--left-out" in err, "--locked" in err) == (2, True, True)


@pytest.mark.parametrize("suite", ["matmul*", "attention a100", "qwen-finetuning-time", ""])
def test_without_a_data_folder_it_is_said_what_one_holds(in_process, monkeypatch, suite):
    monkeypatch.delenv("SIGHTLINE_DATA", raising=False)
    code, out, err = in_process("validate", suite)
    assert (code, out) == (2, "")
    assert f"'{suite}'" in err
    assert "--data DIR" in err
    assert "SIGHTLINE_DATA" in err
    assert "`sightline catalog published NAME`" in err


def test_a_misspelt_suite_is_told_the_nearest_and_nothing_else(in_process, monkeypatch):
    monkeypatch.delenv("SIGHTLINE_DATA", raising=False)
    code, _, err = in_process("validate", "korthikanti-2022-tabel5")
    assert code == 2
    assert err.strip().endswith("unknown suite 'korthikanti-2022-tabel5' - did you mean 'korthikanti-2022-table5'?")


def test_a_data_folder_without_the_table_of_a_suite_is_refused(in_process, tmp_path):
    for suite, said in (("mosaicml-mpt", "lacks its table"), ("matmul*", "has no table of single operators")):
        code, out, err = in_process("validate", suite, "--data", tmp_path)
        assert (code, out) == (2, "")
        assert f"--data '{tmp_path}' {said}" in err


@pytest.mark.parametrize("width", [60, 80])
def test_errors_are_readable_in_a_narrow_terminal(in_process, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = in_process("validate", "korthikanti-2022*", "--cases")
    assert code == 0
    assert max(map(len, out.splitlines())) <= width
    for said in ("korthikanti-2022-table5, step time", "korthikanti-2022-fig1, layer activation bytes", "median"):
        assert said in out


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ("vllm", "978 (9)"),
        ("rtx-40*", "numbers operators"),
    ],
)
def test_coverage_says_what_its_numbers_are(in_process, chosen, said):
    out = in_process("validate", chosen, "--coverage")[1]
    assert said in " ".join(out.split())
    assert " ".join(out.split()).count("978 (9) means") + " ".join(out.split()).count("numbers operators") == 1


def test_coverage_of_a_device_has_reasons(in_process):
    out = in_process("validate", "rtx-4070", "--coverage", "--markdown", "-")[1]
    assert "rtx-4090 |" in out


def test_coverage_is_answered_in_every_form(in_process, tmp_path):
    asked = ("validate", "v100-sxm2-32gb", "--coverage")
    code, out, err = in_process(*asked, "--markdown", tmp_path / "coverage.md", "--html", tmp_path / "coverage.html")
    assert (code, "matmul" in out, "datasheet-only" in out) == (0, True, True)
    assert "coverage.md" in err
    for form in ("coverage.md", "coverage.html"):
        assert "datasheet-only" in (tmp_path / form).read_text(encoding="utf-8")
    cells = json.loads(in_process(*asked, "--json")[1])["coverage"]
    assert {cell["of"] for cell in cells} == {"v100-sxm2-32gb"}
    assert all(cell["scenario"]["workload"]["task"] == "operator" for cell in cells)
    assert len(in_process(*asked, "--csv")[1].splitlines()) == len(cells) + 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--chart", "out.svg"], "--html"),
        (["--left-out"], "--left-out"),
    ],
)
def test_coverage_refuses_what_it_has_not(in_process, options, said):
    code, out, err = in_process("validate", "v100-sxm2-32gb", "--coverage", *options)
    assert (code, out) == (2, "")
    assert said in err


def test_errors_are_lines_of_csv_too(in_process):
    header, *lines = in_process("validate", "korthikanti-2022-table5", "--csv")[1].splitlines()
    assert set(header.split(",")) == KEYS - {"reasons"}
    assert lines
