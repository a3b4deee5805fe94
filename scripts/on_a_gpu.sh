#!/usr/bin/env bash
# Measure on one NVIDIA GPU whatever Sightline can measure there, in at most 8 minutes, into at most 64 MiB:
#
#     scripts/on_a_gpu.sh [--dry-run] [--out DIR]
#
# Training by framework (with its modules and a profiler's trace), its variants, generation, operators, constants fitted to
# them, energy. A part that fails or takes too long does not stop the others. DIR (default: gpu-results) gets runs.zip, for
# `sightline runs import`, with the log of each part. Exit code 0: all parts are done; 1: some failed.
# --dry-run, or a machine without a GPU, runs the same parts with tiny models on the processor. PYTHON names an interpreter.
set -uo pipefail

out=gpu-results dry_run=""
while [ $# -gt 0 ]; do
    case $1 in
        --dry-run) dry_run=yes ;;
        --out) out=${2:?--out needs a folder} && shift ;;
        *) echo "usage: $0 [--dry-run] [--out DIR]" >&2 && exit 2 ;;
    esac
    shift
done
python=${PYTHON:-python}
examples=$(cd "$(dirname "$0")/../examples" && pwd) || exit 2
mkdir -p "$out/logs" && out=$(cd "$out" && pwd) || exit 2
export SIGHTLINE_RUNS="$out/runs"
LONGEST_S=480 MOST_MIB=64
# Kept for a part that does not end at once, and for the archive.
ENDING_S=40

device=$("$python" -c '
import torch
from sightline.measurement.machine import hardware_at_hand
known = hardware_at_hand()
if torch.cuda.is_available() and known.is_processor:
    raise SystemExit(f"the catalog has no {torch.cuda.get_device_name()}: see docs/catalog.md")
print("" if known.is_processor else known.device.name)') || exit 2
[ -n "$device" ] || dry_run=yes
if [ -n "$dry_run" ]; then
    cluster=this-machine dtype=fp32 tokens=16 output=4 quick="--quick --steps 2 --warmup 1"
    model="{model_type: llama, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 160, vocab_size: 320}"
else
    cluster="1x $device" dtype=bf16 tokens=1024 output=64 quick=--quick
    model="{model_type: llama, hidden_size: 1024, num_hidden_layers: 8, num_attention_heads: 16, intermediate_size: 2816, vocab_size: 32000}"
fi

failed=0 summary=""

# Run a command as a part: part NAME SECONDS COMMAND... . The time is less where the whole has little left.
part() {
    local name=$1 limit=$2 left=$((LONGEST_S - ENDING_S - SECONDS)) begun=$SECONDS log="$out/logs/${1// /-}.log" code=0 word=done
    shift 2
    [ "$left" -ge "$limit" ] || limit=$left
    [ -z "$dry_run" ] || limit=600  # a busy processor is slow, not wrong
    if [ "$limit" -le 0 ]; then
        code=124
    else
        echo "== $name: $*"
        # Ctrl-C, so that what was finished is kept.
        timeout --signal INT --kill-after 10 "$limit" "$@" >"$log" 2>&1 || code=$?
    fi
    [ $code = 0 ] || { failed=1 word="failed ($code)"; tail -n 5 "$log" 2>/dev/null; }
    [ $code != 124 ] || word="failed: not within $limit s"
    summary+=$(printf '%5d s  %-22s %s' $((SECONDS - begun)) "$name" "$word")$'\n'
}

skip() { summary+=$(printf '%5s    %-22s skipped: %s' "-" "$1" "$2")$'\n'; }

sightline() { part "$1" "$2" "$python" -m sightline "${@:3}"; }

has() { "$python" -c "import $1" >/dev/null 2>&1; }

# Write a scenario of training with a plan: training NAME TASK PLAN.
training() {
    cat >"$out/$1.yaml" <<END
name: $1
model: $model
cluster: $cluster
workload: {task: $2, sequence_length: $tokens, global_batch: 4}
plan: {dtype: $dtype, micro_batch: 2, $3}
END
}

# Each framework by itself: its steps, their modules, and the operators of a traced one.
training transformers pretrain "framework: transformers"
training fsdp pretrain "framework: fsdp, zero_stage: 3"
training deepspeed pretrain "framework: deepspeed, zero_stage: 2"
training megatron pretrain "framework: megatron, attention: eager"
for framework in transformers fsdp deepspeed megatron; do
    package=$framework
    [ $framework != fsdp ] || package=torch
    if has $package; then
        # shellcheck disable=SC2086 - several words
        sightline $framework 60 measure "$out/$framework.yaml" $quick --level end-to-end,module,operator
    else
        skip $framework "not installed"
    fi
    [ $framework != transformers ] || sightline "steps fitted" 30 calibrate --from-run latest --out "$out/catalog"
done

# What else a step may be: recomputed with activations on the host, adapters over packed weights, compiled.
training recomputed pretrain "framework: fsdp, zero_stage: 3, recompute: full, attention: eager, offload: [parameters, optimizer, activations]"
training adapters finetune "framework: transformers, adapter: {kind: qlora, rank: 8}"
training compiled pretrain "framework: transformers, compile: true"
# The dry run has one variant and one way to generate: CI has a minute for all of it.
variants="recomputed adapters compiled" ways="dynamic static eager compiled"
[ -z "$dry_run" ] || variants=recomputed ways=dynamic
for variant in $variants; do
    # shellcheck disable=SC2086 - several words
    sightline "$variant" 60 measure "$out/$variant.yaml" $quick --level end-to-end
done

cat >"$out/generation.yaml" <<END
name: generation
model: $model
cluster: $cluster
workload: {task: generate, batch: 4, prompt_tokens: $tokens, output_tokens: $output}
plan: {framework: transformers, dtype: $dtype}
END
for way in $ways; do
    sightline "generation $way" 60 measure "$out/generation.yaml" --quick --implementation "$way"
done

# PyTorch's implementations of an operator, and copies over the bus.
part implementations 90 "$python" - "$cluster" "$dtype" "$dry_run" <<'END'
import sys

from sightline.measurement.operators.operator_suite import HOW, measure_suite
from sightline.runs import open_store

cluster, dtype, tiny = sys.argv[1:]
size = 2**6 if tiny else 2**12
operators = {
    "matmul": ({"m": size, "n": size, "k": size, "dtype": dtype}, "library input-gradient weight-gradient recorded backward"),
    "attention": ({"heads": 8, "head_dim": 64, "query_tokens": size, "dtype": dtype}, "auto flash efficient cudnn math eager"),
    "adam": ({"elements": size**2, "dtype": "fp32"}, "fused foreach loop clipped"),
    "copy": ({"elements": size**2, "dtype": dtype}, "memory host host-to-device device-to-host"),
}
scenarios = [
    {"cluster": cluster, "workload": {"task": "operator", "operator": name, **sizes}, HOW: {"implementation": way}}
    for name, (sizes, ways) in operators.items()
    for way in ways.split()[: 2 if tiny else None]
]
measured, missing = measure_suite("implementations", scenarios, open_store(), quick=True, brief=bool(tiny))
print(f"{len(measured)} of {len(scenarios)} measured", *missing, sep="\n")
sys.exit(bool(missing))
END

# The operators that constants are fitted to, and the fit.
if [ -z "$dry_run" ]; then
    sightline operators 170 measure --suite standard --quick --dtype "$dtype" --cluster "$cluster" --out "$out/operators.json"
    sightline "operators fitted" 60 calibrate --from "$out/operators.json" --device "$device" --out "$out/catalog" --overwrite
else
    sightline "operators fitted" 60 calibrate --from "$examples/tables/matmuls-a100.csv" --device a100-sxm-80gb --out "$out/catalog"
fi

if [ -n "$dry_run" ] || ! has pynvml; then
    skip energy "needs a GPU and nvidia-ml-py"
else
    part energy 20 "$python" - <<'END'
from sightline.runs import open_store

runs = [run for run in open_store().runs() if run.result and {"step_time_s", "latency_s"} & run.result.keys()]
without = [run.name for run in runs if not (run.result.get("energy_per_step_j") or run.result.get("energy_j"))]
print(f"{len(runs) - len(without)} of {len(runs)} runs have energy; without: {', '.join(without) or 'none'}")
raise SystemExit(bool(without) or not runs)
END
fi
skip collectives "need two GPUs"

ENDING_S=0
sightline archive 20 runs export --out "$out/runs.zip"
mib=$(du -sm --exclude=runs "$out" | cut -f1)
[ "$mib" -le $MOST_MIB ] || { failed=1 && echo "the results are $mib MiB, more than $MOST_MIB"; }
printf '\n%s%5d s  in all, on %s: %s, %d MiB\n' "$summary" $SECONDS "${device:-the processor}" "$out/runs.zip" "$mib"
exit $failed
