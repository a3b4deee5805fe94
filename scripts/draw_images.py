"""Draw the pictures of the README and the documentation with the tool itself.

The picture of published runs needs `--data DIR`, the folder of the public data sets.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from rates_chart import RateMeasured, measured_rates_chart

from sightline.charts import rendering
from sightline.exploration import BUILT_IN
from sightline.validation.serving import RATE, Log, MeasuredRun, answers_of
from sightline.validation.serving.vllm import CLIENTS, vllm_logs, vllm_saturated

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PLANS = "examples/plans"
PICTURES = {
    "prediction.svg": ["predict", "examples/llama-2-7b-zero2-8xa800.yaml"],
    "sweep.svg": ["predict", "examples/sweep-llama-2-7b.yaml"],
    "plan.svg": ["plan", f"{PLANS}/llama-3-70b-64xh100.yaml"],
    "plan-front.svg": [
        *("plan", f"{PLANS}/llama-3-70b-30-days.yaml", "--pareto", "time,cost"),
        *("--price", "b200-sxm-180gb=8"),
    ],
    "plan-serving.svg": [
        *("plan", f"{PLANS}/qwen3-32b-32xh200.yaml", "--ttft", "2 s", "--pareto", "interactivity,throughput"),
    ],
    "serving.svg": [
        *("simulate", "examples/serving/llama-3.1-8b-h100.yaml", "--sweep"),
        "workload.arrival.rate=1,2,4,6,8,10,12,14,16,18,20",
    ],
    "exploring.svg": ["explore", "examples/studies/compute-and-network.yaml"],
}
"""By name: what is asked for."""
_STEP, _LOAD = "examples/gpt-3-175b-1024xa100.yaml", "examples/serving/llama-3.1-8b-h100.yaml"
_BATCH, _PIPELINE = "examples/llama-2-70b-generate-4xh100.yaml", "examples/pipeline-llama-2-13b-32xa100.yaml"
_TWO_KEYS = ("--sweep", "plan.tensor_parallel=1,2,4,8", "--sweep", "plan.micro_batch=1,2,4")
_COUNTS = "cluster=8x a100-sxm-80gb,16x a100-sxm-80gb,32x a100-sxm-80gb,64x a100-sxm-80gb,128x a100-sxm-80gb"
_FREE = ("--set", "plan.data_parallel=null", "--set", "plan.pipeline_parallel=1")
GALLERY = {
    "time": ["predict", _STEP],
    "memory": ["predict", _STEP],
    "roofline": ["predict", _STEP],
    "pipeline": ["predict", _PIPELINE],
    "scaling": ["predict", _PIPELINE, *_FREE, "--set", "workload.global_batch=256", "--sweep", _COUNTS],
    "heat-map": ["predict", _PIPELINE, *_FREE, "--set", "workload.global_batch=128", *_TWO_KEYS],
    "throughput-latency": ["simulate", _LOAD, "--sweep", "workload.arrival.rate=2,4,8,12,16,20"],
    "latency": ["simulate", _LOAD],
    "over-time": ["simulate", _LOAD],
    "tornado": ["sensitivity", _BATCH],
    "pareto": PICTURES["plan-front.svg"],
    "parity": ["validate", "megatron-2020"],
    "matmuls": ["roofline", "examples/llama-2-7b-generate-a100.yaml", "--devices", "a100-sxm-80gb,h100-sxm-80gb"],
}
"""A chart of each kind, by its name, and what is asked for; `docs/charts.md` shows them."""
STUDIES = {f"studies/{name}.svg": ["explore", name] for name in BUILT_IN}
"""The pictures of the built-in studies."""


TIMES = ("ttft_s", "tpot_s", "latency_s")
RUNS = "residency-"
"""How the names of the runs begin that differ in their rate."""


def main() -> None:
    """Draw each picture anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="draw the picture of published runs alone, from this folder")
    parser.add_argument("--study", choices=BUILT_IN, action="append", help="draw the pictures of these studies alone")
    parser.add_argument("--charts", action="store_true", help="draw the gallery of charts alone")
    parser.add_argument("--page", action="store_true", help="take the picture of the page alone, with Chromium")
    asked = parser.parse_args()
    if asked.page:
        photograph_page()
        return
    if asked.data is not None:
        path = IMAGES / "serving-measured-h100.svg"
        path.write_text(str(rendering.draw(published_rates(asked.data), str(path))), encoding="utf-8")
        return
    if asked.charts:
        draw_gallery()
        return
    (IMAGES / "studies").mkdir(parents=True, exist_ok=True)
    pictures = {f"studies/{name}.svg": STUDIES[f"studies/{name}.svg"] for name in asked.study or ()}
    for name, words in (pictures or {**PICTURES, **STUDIES}).items():
        command = [sys.executable, "-m", "sightline", *words, "--chart", str(IMAGES / name)]
        subprocess.run(command, check=True, cwd=ROOT)
    if not pictures:
        draw_gallery()


_ASKED = "model=llama-3-8b&cluster=64x+h100-sxm-80gb&workload.task=pretrain&workload.sequence_length=8192"
PAGES: Final[dict[str, tuple[Literal["light", "dark"], str, str]]] = {
    "page": ("light", "predict", "text=What limits it"),
    "page-sweep": (
        "dark",
        "predict?tab=sweep&vary1=plan.micro_batch&vary2=plan.tensor_parallel&workload.global_batch=256&plan.zero_stage=1&plan.tensor_parallel=2&"
        + _ASKED,
        "text=What it depends on",
    ),
    "page-plan": ("light", f"plan?workload.global_batch=256&workload.total_tokens=2e12&{_ASKED}", "#answer table"),
}
"""Pictures of the page: theme, address, and what is waited for."""


def photograph_page() -> None:
    """Take pictures of the local page: as it starts, of a sweep in the dark, and of the best plans."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "sightline", "ui", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        said = server.stdout.readline() if server.stdout else ""
        address = next(word for word in said.split() if word.startswith("http"))
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (scheme, query, awaited) in PAGES.items():
            page = chromium.new_page(viewport={"width": 1280, "height": 860}, color_scheme=scheme)
            page.goto(f"{address}{query}")
            page.locator(awaited).first.wait_for()
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(1000)
            page.screenshot(path=IMAGES / f"{name}.png")
        chromium.close()
        server.terminate()


def draw_gallery() -> None:
    """Draw one chart of each kind."""
    (IMAGES / "charts").mkdir(parents=True, exist_ok=True)
    for name, words in GALLERY.items():
        with TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "sightline", *words, "--charts", folder]
            subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
            shutil.copy(Path(folder) / f"{name}.svg", IMAGES / "charts" / f"{name}.svg")


def published_rates(data: Path) -> dict[str, Any]:
    """Return the picture of one server at several rates, as a source measured it and as it is simulated."""
    figures = (RATE, *(f"{key}.mean" for key in TIMES))
    log, full = (replace(of, figures=figures) for of in (vllm_logs(data), vllm_saturated(data)))
    runs = sorted((run for run in log.read() if run.name.startswith(RUNS)), key=_rate)
    capped = next(run for run in full.read() if run.name.startswith(RUNS))
    rates = [*_replayed(log, runs), *_replayed(full, [capped])]
    title = "Qwen3-14B on one H100, vLLM 0.23, 1,024 tokens in and 128 out"
    lines = [
        f"Every request replayed at its time; the last point is {CLIENTS} clients that never pause.",
        "All runs that do not saturate the server. That at 12 per second, one at 6 and the last are of a patched build.",
    ]
    return measured_rates_chart(rates, title, lines)


def _replayed(log: Log, runs: Sequence[MeasuredRun]) -> list[RateMeasured]:
    answers = answers_of(log, runs)
    found = []
    for number in range(len(runs)):
        of_run = {figure.removesuffix(".mean"): of[number] for figure, of in answers.items()}
        found.append(
            RateMeasured(
                measured={key: answer.case.measured for key, answer in of_run.items()},
                simulated={key: answer.predicted or 0.0 for key, answer in of_run.items()},
                interval={key: answer.interval for key, answer in of_run.items() if answer.interval},
            )
        )
    return found


def _rate(run: MeasuredRun) -> float:
    return len(run.requests) / float(run.requests.arrival_s[-1])


if __name__ == "__main__":
    main()
