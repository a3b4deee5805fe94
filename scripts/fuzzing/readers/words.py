"""Small languages: quantities with units, and the options of commands that take more than a name."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from fuzzing import values
from fuzzing.campaign import Maker
from fuzzing.inputs import Input
from fuzzing.readers.documents import as_yaml, written
from fuzzing.readers.scenarios import known_scenarios
from fuzzing.trees import Corpus


def quantities() -> Maker:
    """Quantities of every dimension."""
    from sightline import quantities as known
    from sightline.quantities import Dimension

    dimensions = {name: one for name, one in vars(known).items() if isinstance(one, Dimension)}

    def make(rng: Random) -> Input:
        name = rng.choice(sorted(dimensions))
        unit = rng.choice([*dimensions[name].units, *values.UNITS])
        gap = rng.choice(["", " ", "  ", "\t", "\u00a0", "\n"])
        text = rng.choice(
            [f"{values.number(rng)!s:.200}{gap}{unit}", f"{rng.uniform(0, 2000):.4g}{gap}{unit}", values.text(rng)]
        )
        return Input(verb="quantity", arguments=(name, text))

    return make


_TRAINING: Final = {
    "model": "llama-2-7b",
    "cluster": "2x a100-sxm-80gb",
    "workload": {"task": "finetune", "sequence_length": 512, "global_batch": 8},
    "plan": {"framework": "deepspeed"},
}
_GENERATION: Final = {
    "model": "llama-2-7b",
    "cluster": "1x a100-sxm-80gb",
    "workload": {"task": "generate", "batch": 2, "prompt_tokens": 64, "output_tokens": 8},
    "plan": {"framework": "vllm"},
}
_OF_PLAN: Final[Mapping[str, Sequence[str]]] = {
    "--objective": ("time", "cost", "throughput"),
    "--pareto": ("time,cost", "latency,throughput"),
    "--devices": ("2x h100-sxm-80gb", "1..8x a100-sxm-80gb", "a100-sxm-80gb,l40s-48gb"),
    "--max-memory": ("70 GB",),
    "--deadline": ("30d",),
    "--budget": ("1M", "100 USD"),
    "--ttft": ("300 ms",),
    "--tpot": ("10 ms",),
    "--price": ("a100-sxm-80gb=2.10",),
    "--availability": ("0.9",),
}
_OF_PREDICT: Final[Mapping[str, Sequence[str]]] = {
    "--sort": ("step_time_s", "memory_bytes.total", "plan.micro_batch"),
    "--top": ("2",),
    "--anchor": ("latest",),
}
_OF_CHECK: Final[Mapping[str, Sequence[str]]] = {
    "--require": ("fits,mfu>=0.35", "step_time_s<=1.5 s,memory<=70 GB", "tpot_p99<50 ms", "bound==memory,cost<=10000"),
}
_OF_ROOFLINE: Final[Mapping[str, Sequence[str]]] = {"--devices": ("a100-sxm-80gb,h100-sxm-80gb",)}
_OF_COMMANDS: Final = {"predict": _OF_PREDICT, "plan": _OF_PLAN, "check": _OF_CHECK, "roofline": _OF_ROOFLINE}
"""Options whose values have a form, with right values, by command."""


def options() -> Maker:
    """``--set`` and ``--sweep``, and options whose values have a form."""
    corpus = Corpus(known_scenarios())
    keys = sorted({key for tree in corpus.documents for key in _dotted(tree)})
    files = {"training.yaml": as_yaml(_TRAINING), "generation.yaml": as_yaml(_GENERATION)}

    def setting(rng: Random) -> tuple[str, str]:
        key = rng.choice(keys) if rng.random() < 0.9 else values.text(rng)
        known = corpus.known.get(key.rpartition(".")[2]) or [1]
        texts = [
            _text(rng, rng.choice(known) if rng.random() < 0.5 else values.anything(rng))
            for _ in range(rng.randint(1, 3))
        ]
        if rng.random() < 0.3:
            return "--sweep", f"{key}={','.join(texts)}"
        return "--set", f"{key}={texts[0]}"

    def make(rng: Random) -> Input:
        verb = rng.choice(["predict", "predict", "predict", *_OF_COMMANDS])
        own = _OF_COMMANDS[verb]
        name = "generation.yaml" if verb == "roofline" else rng.choice(sorted(files))
        words = [setting(rng) for _ in range(rng.choice([0, 1, 1, 2]))] if verb != "plan" else []
        if verb in ("plan", "check") or rng.random() < 0.3:
            option = rng.choice(sorted(own))
            words.append((option, _wrong_word(rng, rng.choice(own[option]))))
        arguments = [verb, name, *(word.replace("\0", "") for pair in words for word in pair), "--json"]
        return Input(verb="command", arguments=tuple(arguments), files=files)

    return make


def _dotted(tree: Any, within: str = "") -> list[str]:
    if not isinstance(tree, dict):
        return [within]
    return [within, *(key for name, inner in tree.items() for key in _dotted(inner, f"{within}.{name}".lstrip(".")))]


def _text(rng: Random, value: Any) -> str:
    """A value as one types it."""
    if isinstance(value, dict | list):
        return written(rng, value, ".json")[1].decode("utf-8", "replace")[:5_000]
    try:
        return str(value)
    except ValueError:  # an integer that Python does not write
        return "1e9999"


def _wrong_word(rng: Random, word: str) -> str:
    at = rng.randint(0, len(word))
    return rng.choice(
        [
            word,
            values.text(rng),
            str(values.number(rng))[:400],
            word[:at] + values.text(rng) + word[at:],
            word[:at],
            f"{word},{word}",
        ]
    )
