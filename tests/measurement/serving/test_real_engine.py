"""A real engine, ``transformers serve``, measured and simulated with the same scenario; both are printed."""

import json
import sys
from math import isfinite
from pathlib import Path

import pytest

for package in ("torch", "transformers", "fastapi", "uvicorn", "openai", "aiohttp"):
    pytest.importorskip(package)

EXAMPLE = Path(__file__).parents[3] / "examples/tiny-llama-serve-this-machine.yaml"


@pytest.mark.slow
def test_transformers_serve_is_measured_and_simulated(tmp_path, monkeypatch, capsys):
    from sightline.cli.main import run

    def answer(*arguments):
        code = run([*map(str, arguments), "--json"])
        said = capsys.readouterr()
        assert code == 0, said.err
        return json.loads(said.out)

    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path))
    measured = answer("measure", EXAMPLE)
    assert (measured["completed"], measured["failed"]) == (40, 0)
    assert not [why for why in measured["warnings"] if "other lengths" in why or "another length" in why]
    alone = answer("simulate", EXAMPLE)
    anchored = answer("simulate", EXAMPLE, "--anchor", measured["run"], "--replay", measured["run"])
    with capsys.disabled():
        sys.stdout.write("\ntransformers serve      measured  simulated  after the run\n")
        for key in ("ttft_s", "tpot_s", "latency_s"):
            times = [one[key]["mean"] * 1e3 for one in (measured, alone, anchored)]
            sys.stdout.write(f"{key:20} " + " ".join(f"{time:9.2f}" for time in times) + "  ms\n")
    means = [row for row in anchored["replay"] if row["statistic"] == "mean"]
    assert [row["time"] for row in means] == ["ttft_s", "tpot_s", "latency_s"]
    assert all(row["measured"] > 0 for row in means)
    for key in ("ttft_s", "tpot_s", "latency_s"):
        # How near they are, a machine that does other work too decides: it is printed.
        assert all(isfinite(one[key]["mean"]) and one[key]["mean"] > 0 for one in (alone, anchored))
    (taught,) = anchored["anchor"]
    assert taught["from"] == measured["run"]
    assert "measurements took" in taught["sentence"]
