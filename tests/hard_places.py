"""Commands, each short, and how they are run in places that are hard to run in."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from waiting import PATIENCE_S

EXAMPLES = Path(__file__).parents[1] / "examples"
TRAINING = EXAMPLES / "llama-2-7b-zero2-8xa800.yaml"
GENERATION = EXAMPLES / "llama-2-7b-generate-a100.yaml"
COMMANDS = {
    "predict": ("predict", TRAINING),
    "sweep": ("predict", EXAMPLES / "sweep-llama-2-7b.yaml"),
    "json": ("predict", GENERATION, "--json"),
    "chart": ("predict", TRAINING, "--chart", "{out}/chart.svg"),
    "report": ("predict", TRAINING, "--html", "{out}/report.html", "--markdown", "{out}/report.md"),
    "plan": ("plan", EXAMPLES / "plans" / "llama-3.1-8b-rtx-4090.yaml"),
    "compare": ("compare", TRAINING, EXAMPLES / "llama-2-7b-measured-8xa800.yaml"),
    "import": ("import", "vllm serve Qwen/Qwen3-32B -tp 4", "--cluster", "4x h100-sxm-80gb"),
    "roofline": ("roofline", GENERATION),
    "sensitivity": ("sensitivity", TRAINING),
    "catalog": ("catalog", "devices", "a100-sxm-80gb"),
    "validate": ("validate", "korthikanti-2022-table5"),
    "explain": ("explain", TRAINING),
    "trace": ("explain", EXAMPLES / "traces" / "slow-loader.json.gz"),
    "explore": ("explore",),
    "calibrate": ("calibrate", "--from", EXAMPLES / "tables" / "matmuls-a100.csv", "--device", "a100-sxm-80gb"),
    "runs": ("runs", "list"),
    "query": ("runs", "query", "select count(*) from runs"),
    "check": ("check", TRAINING, "--require", "fits"),
    "help": ("--help",),
    "version": ("--version",),
}
"""By name; what they write goes into ``{out}``."""
PLAN = EXAMPLES / "plans" / "llama-3.1-8b-rtx-4090.yaml"
SERVING = EXAMPLES / "serving" / "llama-3.1-8b-h100.yaml"
WRITING = {
    "chart": COMMANDS["chart"],
    "report": COMMANDS["report"],
    "timeline": ("predict", TRAINING, "--trace", "{out}/trace.json"),
    "launch": ("plan", PLAN, "--launch", "{out}/launch"),
    "search": ("plan", PLAN, "--workers", "local:1", "--where", "{out}/search"),
    "requests": ("simulate", SERVING, "--stream", "--no-intervals", "--requests", "{out}/requests.parquet"),
}
"""Commands that write more than a kilobyte."""
OF_SIGHTLINE = ("SIGHTLINE_RUNS", "SIGHTLINE_JOBS", "SIGHTLINE_CATALOG", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""Variables that would lead away from the place."""


def run(name, folder, *before, environment=None, cwd=None, **streams):
    """Run a command with an environment (None removes a variable) and words ``before`` it, such as ``unshare -n``."""
    out = Path(folder) / "out"
    out.mkdir(exist_ok=True)
    out.chmod(0o777)
    words = [str(word).replace("{out}", str(out)) for word in {**COMMANDS, **WRITING}[name]]
    changed = {**dict.fromkeys(OF_SIGHTLINE), "HOME": str(folder), **(environment or {})}
    whole = {key: value for key, value in {**os.environ, **changed}.items() if value is not None}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    command = [*before, sys.executable, "-m", "sightline", *words]
    return subprocess.run(command, env=whole, cwd=cwd or folder, check=False, timeout=PATIENCE_S, **streams)


def is_possible(*before):
    """Return whether this machine runs a command behind such words."""
    if shutil.which(before[0]) is None:
        return False
    return subprocess.run([*before, "true"], capture_output=True, check=False, timeout=PATIENCE_S).returncode == 0


def check_quiet(answer, code=0):
    """The command ended as expected, and what it says on stderr are sentences of ours."""
    said = (answer.stderr or b"").decode(errors="replace")
    assert answer.returncode == code, said
    assert [line for line in said.splitlines() if not line.startswith("sightline: ")] == []
