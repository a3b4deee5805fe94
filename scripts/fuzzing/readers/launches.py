"""Configurations and command lines of frameworks and engines."""

import json
import tomllib
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import yaml

from fuzzing import raw, values
from fuzzing.campaign import Maker
from fuzzing.inputs import Input
from fuzzing.readers.documents import as_yaml, written
from fuzzing.trees import Corpus

_SCENARIOS: Final[Mapping[str, Mapping[str, Any]]] = {
    "deepspeed": {"zero_stage": 3, "offload": "optimizer"},
    "fsdp": {"zero_stage": 3},
    "torchtitan": {"pipeline_parallel": 2, "virtual_stages": 2},
    "megatron": {"tensor_parallel": 2, "pipeline_parallel": 2},
    **{engine: {} for engine in ("vllm", "sglang", "tensorrt-llm", "tgi", "lightllm", "llama.cpp", "transformers")},
}
_COMMANDS: Final = (
    "vllm serve Qwen/Qwen3-32B -tp 4 --max-num-seqs 64 --gpu-memory-utilization 0.9 --kv-cache-dtype fp8",
    "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --tp 2 --mem-fraction-static 0.8",
    "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.10.0 --model mistralai/Mixtral-8x7B-v0.1 --max-model-len 8k",
    "text-generation-launcher --model-id bigscience/bloom --num-shard 8 --max-batch-prefill-tokens 4096",
    "llama-server -m model-Q4_K_M.gguf -c 4096 -ngl 99 -np 4",
    (
        "torchrun --nproc_per_node 8 --nnodes $N pretrain_gpt.py --num-layers 32 --hidden-size 4096 --seq-length 2048"
        " --num-attention-heads 32 --micro-batch-size 2 --global-batch-size 64 --tensor-model-parallel-size 2 --bf16"
    ),
    (
        "MODEL=(--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --num-experts 8 --moe-layer-freq [1]*4)\n"
        "PLAN+=(--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et|(tt|)*2t*3L' ${X:-$Y})\n"
        'N=$((2*4)); torchrun --nproc_per_node $N pretrain_gpt.py "${MODEL[@]}" ${PLAN[@]}\n'
    ),
    "for i in 1 2; do X=$((i + 1)); echo ${X:-3} `date` $(hostname); done && vllm serve x --port=$X <<EOF\nEOF\n",
)
_SIGNS: Final = (
    "'",
    '"',
    "\\",
    "$(",
    "`",
    "${",
    "<<E",
    ";",
    "&&",
    "|",
    "#",
    "$X",
    "--",
    "-",
    "|",
    "&",
    "<",
    "(",
    ")",
    "A=(",
)


def _launched(framework: str, plan: Mapping[str, Any]) -> dict[str, str]:
    """The files of a launch; none where the framework runs no such scenario."""
    from sightline import load
    from sightline.errors import SightlineError
    from sightline.launching import write

    training = {"task": "pretrain", "sequence_length": 512, "global_batch": 64}
    generation = {"task": "generate", "batch": 2, "prompt_tokens": 64, "output_tokens": 8}
    for workload in (training, generation):
        scenario: dict[str, Any] = {"model": "llama-2-7b", "cluster": "8x h100-sxm-80gb", "workload": workload}
        try:
            asked: Any = load({**scenario, "plan": {"framework": framework, **plan}})
            launch = write(asked)
        except SightlineError:
            continue
        return {name: text for name, text in launch.files.items() if not name.endswith(".py")} | {
            "command.sh": launch.command
        }
    return {}


def _parsed(name: str, text: str) -> Any:
    if name.endswith(".toml"):
        return tomllib.loads(text)
    if name.endswith((".yaml", ".yml")):
        return yaml.safe_load(text)
    return json.loads(text) if name.endswith(".json") else None


def launches() -> Maker:
    """What ``sightline import`` reads."""
    files = [launched for framework, plan in _SCENARIOS.items() if (launched := _launched(framework, plan))]
    trees = [(folder, name, tree) for folder in files for name, text in folder.items() if (tree := _parsed(name, text))]
    corpus = Corpus([tree for _, _, tree in trees])
    commands = [*_COMMANDS, *(text for folder in files for name, text in folder.items() if name.endswith(".sh"))]

    def make(rng: Random) -> Input:
        if rng.random() < 0.4:
            command = _wrong_command(rng, rng.choice(commands))
            if rng.random() < 0.4:
                command = raw.mutated(rng, command.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
            if rng.random() < 0.5:
                return _imported("launch.sh", {"launch.sh": command.encode("utf-8", "surrogatepass")})
            return _imported(command.replace("\0", ""), {})
        folder, name, tree = rng.choice(trees)
        box = [json.loads(json.dumps(tree))]
        changed = corpus.mutated(rng, box[0])
        content = _as(rng, name, changed)
        others = {other: text.encode() for other, text in folder.items()}
        asked = rng.choice([name, "launch.sh"]) if "launch.sh" in folder else name
        return _imported(asked, {**others, name: content})

    return make


def _as(rng: Random, name: str, tree: Any) -> bytes:
    if name.endswith(".toml"):
        from sightline.launching.training.torchtitan import toml_text

        try:
            content = toml_text(tree).encode("utf-8", "surrogatepass")
        except Exception:  # noqa: BLE001 - what TOML does not hold
            content = as_yaml(tree) if not isinstance(tree, str) else tree.encode("utf-8", "surrogatepass")
        return raw.mutated(rng, content) if rng.random() < 0.4 else content
    return written(rng, tree, ".json" if name.endswith(".json") else ".yaml")[1]


def _imported(source: str, files: Mapping[str, bytes]) -> Input:
    arguments = ("import", "--cluster", "8x h100-sxm-80gb", "--json", "--", source)
    return Input(verb="command", arguments=arguments, files=files)


def _wrong_command(rng: Random, command: str) -> str:
    """A command with other words."""
    words = command.split(" ")
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        at = rng.randrange(len(words))
        words[at : at + 1] = _instead(rng, words[at], rng.choice(words)) or [""]
    return " ".join(words)


def _instead(rng: Random, word: str, other: str) -> list[str]:
    """Words in place of one: others, none, more of them, a sign of the shell, or a value in it."""
    number = str(values.number(rng))[:400]
    return rng.choice(
        [[values.text(rng)], [number], [word, other], [], [rng.choice(_SIGNS), word], [f"{word}={number}"]]
    )
