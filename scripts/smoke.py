"""Check an installed Sightline by using it: ``smoke.py EXAMPLES``, run with the interpreter it is installed for."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HEAVY = ("torch", "scipy", "altair", "polars", "pandas")

PREDICT_IN_PROCESS = """
import sys
from sightline.cli.main import run
code = run(["predict", sys.argv[1]])
found = sorted(set(sys.argv[2].split(",")) & set(sys.modules))
sys.exit(f"`sightline predict` imported {', '.join(found)}" if found else code)
"""


def main(examples: Path) -> None:
    """Predict every example, draw one, plan, explore, simulate, and see that a prediction imports nothing heavy."""
    tool = Path(sys.executable).with_name("sightline")
    example = examples / "llama-2-7b-zero2-8xa800.yaml"
    subprocess.run([tool, "--version"], check=True)
    for file in sorted(path for path in examples.iterdir() if path.is_file()):
        if "task: serve" in file.read_text(encoding="utf-8"):
            continue  # loads are simulated, not predicted
        answer = subprocess.run([tool, "predict", file, "--json"], check=True, capture_output=True).stdout
        results = json.loads(answer)
        for result in results if isinstance(results, list) else [results]:
            seconds = next(result[key] for key in ("time_s", "step_time_s", "latency_s") if key in result)
            if not seconds > 0:
                raise SystemExit(f"{file.name}: predicted is {seconds} s")
    with tempfile.TemporaryDirectory() as folder:
        # From an empty folder: a question without a file, and an example that comes with the package.
        for asked in (["--model", "llama-3.1-8b", "--cluster", "8x h100"], [f"examples/{example.name}"]):
            subprocess.run([tool, "predict", *asked], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        chart = Path(folder) / "prediction.svg"
        subprocess.run([tool, "predict", example, "--chart", chart], check=True)
        if "<svg" not in chart.read_text(encoding="utf-8"):
            raise SystemExit("the chart is no SVG")
        launch = Path(folder) / "launch"
        question = examples / "plans" / "llama-3.1-8b-rtx-4090.yaml"
        command: list[str | Path] = [tool, "plan", question, "--launch", launch, "--json"]
        planned = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        if not planned["plans"] or not any(launch.iterdir()):
            raise SystemExit("nothing was planned, or not written")
    explore(tool, examples)
    for file in sorted((examples / "serving").glob("*.yaml")):
        command = [tool, "simulate", file, "--no-intervals", "--json"]
        if not json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["completed"]:
            raise SystemExit(f"{file.name}: no request completed")
    subprocess.run(
        [sys.executable, "-c", PREDICT_IN_PROCESS, example, ",".join(HEAVY)], check=True, stdout=subprocess.DEVNULL
    )
    print("smoke: the installed package predicts, draws, plans, explores, simulates and stays light")


def explore(tool: Path, examples: Path) -> None:
    """Run every example of a study."""
    for file in sorted((examples / "studies").glob("*.yaml")):
        command: list[str | Path] = [tool, "explore", file, "--quick", "--json"]
        if not json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rows"]:
            raise SystemExit(f"{file.name}: the study has no points")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
