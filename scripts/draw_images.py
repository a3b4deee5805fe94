"""Draw the pictures of the README and the documentation with the tool itself."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PICTURES = {
    "prediction.svg": "examples/llama-2-7b-zero2-8xa800.yaml",
    "sweep.svg": "examples/sweep-llama-2-7b.yaml",
}


def main() -> None:
    """Draw each picture anew."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, scenario in PICTURES.items():
        command = [sys.executable, "-m", "sightline", "predict", scenario, "--chart", str(IMAGES / name)]
        subprocess.run(command, check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
