"""Draw the pictures of the README and the documentation with the tool itself."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PLANS = "examples/plans"
PICTURES = {
    "prediction.svg": ["predict", "examples/llama-2-7b-zero2-8xa800.yaml"],
    "sweep.svg": ["predict", "examples/sweep-llama-2-7b.yaml"],
    "plan.svg": ["plan", f"{PLANS}/llama-3-70b-64xh100.yaml", "--launchable"],
    "plan-front.svg": [
        *("plan", f"{PLANS}/llama-3-70b-30-days.yaml", "--pareto", "time,cost", "--launchable"),
        *("--price", "b200-sxm-180gb=8"),
    ],
    "plan-serving.svg": [
        *("plan", f"{PLANS}/qwen3-32b-32xh200.yaml", "--ttft", "2 s", "--pareto", "interactivity,throughput"),
    ],
}
"""By name: what is asked for."""


def main() -> None:
    """Draw each picture anew."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, asked in PICTURES.items():
        command = [sys.executable, "-m", "sightline", *asked, "--chart", str(IMAGES / name)]
        subprocess.run(command, check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
