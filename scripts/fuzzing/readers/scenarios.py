"""Scenarios, models' configurations, spaces of plans, and studies."""

import json
from random import Random
from typing import Any

from fuzzing.campaign import Maker
from fuzzing.inputs import Input
from fuzzing.readers.documents import EXAMPLES, ROOT, as_yaml, read_yaml, written, yaml_text
from fuzzing.readers.tables import as_csv
from fuzzing.trees import Corpus

_EVERY = 20
"""Of the scenarios of the ledger, of which many are alike."""
_MODEL_OF = {
    "training": {
        "cluster": "8x h100-sxm-80gb",
        "workload": {"task": "pretrain", "sequence_length": 512, "global_batch": 8},
    },
    "generation": {
        "cluster": "8x h100-sxm-80gb",
        "workload": {"task": "generate", "batch": 2, "prompt_tokens": 64, "output_tokens": 8},
    },
}


def _examples(*folders: str) -> list[Any]:
    paths = [path for folder in folders for path in sorted((EXAMPLES / folder).glob("*.yaml"))]
    return [document for path in paths for document in read_yaml(path)]


def known_scenarios() -> list[Any]:
    """Return scenarios of all tasks."""
    lines = (ROOT / "tests" / "ledger" / "scenarios.jsonl").read_text(encoding="utf-8").splitlines()
    return [*_examples("", "serving"), *(json.loads(line)["scenario"] for line in lines[::_EVERY])]


def scenarios() -> Maker:
    """Scenario files: YAML, JSON and CSV."""
    corpus = Corpus(known_scenarios())

    def make(rng: Random) -> Input:
        if rng.random() < 0.05:
            suffix, content = ".yaml", yaml_text(rng)
        elif rng.random() < 0.1:
            suffix, content = ".csv", as_csv(rng, [_flat(corpus.draw(rng)) for _ in range(rng.randint(1, 3))])
        else:
            suffix, content = written(rng, corpus.draw(rng), ".yaml", ".json")
        return _command("predict", f"scenario{suffix}", content)

    return make


def _command(verb: str, name: str, content: bytes, *options: str) -> Input:
    return Input(verb="command", arguments=(verb, name, *options, "--json"), files={name: content})


def _flat(tree: Any, within: str = "") -> dict[str, Any]:
    """A scenario as a row of a table: dotted keys."""
    if not isinstance(tree, dict):
        return {within: tree}
    return {
        key: value
        for name, inner in tree.items()
        for key, value in _flat(inner, f"{within}.{name}".lstrip(".")).items()
    }


def configs() -> Maker:
    """``config.json`` of models, alone and in a folder."""
    from sightline import catalog

    corpus = Corpus([dict(catalog.entry("models", name)) for name in catalog.names("models")])

    def make(rng: Random) -> Input:
        _, content = written(rng, corpus.draw(rng), ".json")
        folder, task = rng.choice(["", "some-model/"]), rng.choice(list(_MODEL_OF))
        scenario = {"model": folder or "config.json", **_MODEL_OF[task]}
        files = {f"{folder}config.json": content, "scenario.yaml": as_yaml(scenario)}
        if folder and rng.random() < 0.3:
            files[f"{folder}hf_quant_config.json"] = written(rng, corpus.draw(rng), ".json")[1]
        return Input(verb="command", arguments=("predict", "scenario.yaml", "--json"), files=files)

    return make


def plans() -> Maker:
    """Scenarios whose fields are searched."""
    small = {"model": "llama-2-7b", "cluster": "2x a100-sxm-80gb"}
    training = {"task": "finetune", "sequence_length": 512, "global_batch": 8}
    generation = {"task": "generate", "batch": 2, "prompt_tokens": 64, "output_tokens": 8}
    one_of = {"micro_batch": {"any": [1, 2]}, "zero_stage": {"from": 1, "to": 2}, "tensor_parallel": 1}
    spaces: list[Any] = [
        {**small, "workload": training, "plan": {"framework": "deepspeed", **one_of}},
        {**small, "workload": training, "plan": {"framework": "megatron", "recompute": {"any": ["none", "full"]}}},
        {**small, "workload": {**training, "global_batch": {"any": [8, 16]}}, "plan": {"framework": "fsdp", **one_of}},
        {
            **small,
            "cluster": {"any": ["1x a100-sxm-80gb", "2x a100-sxm-80gb"]},
            "workload": generation,
            "plan": {"framework": "vllm"},
        },
        {
            **small,
            "workload": {**generation, "batch": {"from": 1, "to": 8, "factor": 2}},
            "plan": {"framework": {"any": ["vllm", "sglang"]}},
        },
    ]
    corpus = Corpus(spaces)

    def make(rng: Random) -> Input:
        suffix, content = written(rng, corpus.draw(rng), ".yaml", ".json")
        return _command("plan", f"space{suffix}", content)

    return make


def studies() -> Maker:
    """Studies of one's own."""
    corpus = Corpus(_examples("studies"))

    def make(rng: Random) -> Input:
        suffix, content = written(rng, corpus.draw(rng), ".yaml", ".json")
        return _command("explore", f"study{suffix}", content, "--quick")

    return make
