"""Whether load clients agree: the same load sent to one server by Sightline, `vllm bench serve` and guidellm in turn.

The server is a process that streams a token every 20 ms, or the one at `--url`. Both programs come from environments of
their own (`scripts/vllm_on_cpu.sh` makes one with vLLM, `pip install guidellm` the other); either may be left out.

    python benchmarks/bench_load_agreement.py --vllm ENV/bin/vllm --guidellm ENV/bin/guidellm [--rate 10] [--rounds 3]
    python benchmarks/bench_load_agreement.py --vllm ENV/bin/vllm --url http://localhost:8000 --model NAME --tokenizer DIR
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from sightline.loading import load
from sightline.measurement.serving import load as loads
from sightline.measurement.serving.case import write_model
from sightline.measurement.serving.load import words_of
from sightline.scenario import Model, ServingScenario
from sightline.simulation.load import Requests
from sightline.simulation.replay import TIMES, outcome_of
from sightline.simulation.results.times import times_of

HERE = Path(__file__).parent
MODEL = HERE.parent / "examples" / "tiny-llama-serve-this-machine.yaml"
TOKENS_PER_S = 50
GOAL = 0.03
Means = Mapping[str, float]
"""Mean seconds by result key."""


def main() -> None:
    """Send the load by each client, several times in turn, and print means and how far apart they are."""
    asked = _arguments()
    with _server(asked) as url, tempfile.TemporaryDirectory() as scratch:
        folder = asked.tokenizer or Path(scratch) / "model"
        if asked.tokenizer is None:
            write_model(_tiny_model(), "fp32", folder)
        clients: dict[str, Callable[[Path], Means]] = {"sightline": lambda _: _sightline(asked, url)}
        if asked.vllm:
            clients["vllm bench serve"] = lambda out: _vllm(asked, url, folder, out)
        if asked.guidellm:
            clients["guidellm"] = lambda out: _guidellm(asked, url, folder, out)
        rounds: dict[str, list[Means]] = {name: [] for name in clients}
        for number in range(asked.rounds):
            for name, client in clients.items():
                rounds[name].append(client(Path(scratch) / f"{number}.json"))
    _print({name: {key: median(one[key] for one in found) for key in TIMES} for name, found in rounds.items()})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", help="the program vllm")
    parser.add_argument("--guidellm", help="the program guidellm")
    parser.add_argument("--url", help="a server that runs")
    parser.add_argument("--model", default="stamps", help="the model's name on that server")
    parser.add_argument("--tokenizer", type=Path, help="folder with its tokenizer")
    parser.add_argument("--rate", type=float, default=10.0, help="requests per second, evenly spaced")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--output-tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


@contextlib.contextmanager
def _server(asked: argparse.Namespace) -> Iterator[str]:
    """The URL of the server: the one that was named, or one that streams at an even pace."""
    if asked.url:
        yield asked.url
        return
    command = [sys.executable, str(HERE / "bench_load_client.py"), "--serve", "--rate", str(TOKENS_PER_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def _tiny_model() -> Model:
    scenario = load(str(MODEL))
    assert isinstance(scenario, ServingScenario)
    return scenario.model


def _sightline(asked: argparse.Namespace, url: str) -> Means:
    part = Requests(
        arrival_s=np.arange(asked.count) / asked.rate,
        prompt_tokens=np.full(asked.count, asked.prompt_tokens),
        output_tokens=np.full(asked.count, asked.output_tokens),
    )
    how = loads.ClientSettings(url=url, model=asked.model, vocabulary=2000, tokenizer=asked.tokenizer)
    records: list[loads.Record] = []
    asyncio.run(loads.send_load([part], how, records.append))
    return {key: float(np.nanmean(seconds)) for key, seconds in times_of(outcome_of(records)).items()}


def _vllm(asked: argparse.Namespace, url: str, folder: Path, out: Path) -> Means:
    # A gamma process of so large a shape has equal gaps.
    words = [asked.vllm, "bench", "serve", "--backend", "openai", "--base-url", url, "--endpoint", "/v1/completions"]
    words += ["--model", asked.model, "--tokenizer", str(folder), "--dataset-name", "random", "--ignore-eos"]
    words += ["--random-input-len", str(asked.prompt_tokens), "--random-output-len", str(asked.output_tokens)]
    words += ["--num-prompts", str(asked.count), "--request-rate", str(asked.rate), "--burstiness", "1e6"]
    words += ["--num-warmups", "4", "--percentile-metrics", "ttft,tpot,itl,e2el"]
    found = _run([*words, "--save-result", "--result-filename", str(out), "--disable-tqdm"], out)
    named = {"ttft_s": "mean_ttft_ms", "tpot_s": "mean_tpot_ms", "latency_s": "mean_e2el_ms"}
    return {key: found[theirs] / 1e3 for key, theirs in named.items()}


def _guidellm(asked: argparse.Namespace, url: str, folder: Path, out: Path) -> Means:
    backend = f"kind=openai_http,target={url},model={asked.model},request_format=/v1/completions,validate_backend=false"
    # Its own synthetic text needs a tokenizer of natural language.
    prompts, spelling, draw = out.with_suffix(".jsonl"), words_of(folder), np.random.default_rng(0)
    texts = [spelling.write(draw.integers(0, spelling.size, asked.prompt_tokens)) for _ in range(asked.count)]
    rows = [json.dumps({"prompt": text, "output_tokens_count": asked.output_tokens}) for text in texts]
    prompts.write_text("\n".join(rows))
    words = [asked.guidellm, "run", "--backend", backend, "--profile", f"kind=constant,rate={asked.rate:g}"]
    words += ["--constraint", f"kind=max_requests,count={asked.count}", "--data", f"kind=json_file,path={prompts}"]
    words += ["--tokenizer", f"kind=huggingface_auto,model={folder}", "--output", f"kind=json,path={out}"]
    metrics = _run([*words, "--disable-console"], out)["benchmarks"][0]["metrics"]
    named = {"ttft_s": "time_to_first_token_ms", "tpot_s": "inter_token_latency_ms", "latency_s": "request_latency"}
    units_s = {"ttft_s": 1e-3, "tpot_s": 1e-3, "latency_s": 1.0}
    return {key: metrics[theirs]["successful"]["mean"] * units_s[key] for key, theirs in named.items()}


def _run(words: list[str], out: Path) -> Any:
    """The JSON that a program writes; other Pythons' paths are none of its business."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, env=environment | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, check=False)
    if not out.is_file():
        sys.exit(f"{words[0]} ended with status {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    found = json.loads(out.read_text())
    out.unlink()
    return found


def _print(means: Mapping[str, Means]) -> None:
    ours = means["sightline"]
    for name, theirs in means.items():
        print(name.ljust(17), "  ".join(f"{key} {1e3 * theirs[key]:8.2f} ms" for key in TIMES))
        if theirs is not ours:
            apart = {key: ours[key] / theirs[key] - 1.0 for key in TIMES}
            met = "met" if all(abs(one) <= GOAL for one in apart.values()) else "missed"
            said = "  ".join(f"{key} {one:+8.1%}   " for key, one in apart.items())
            print("  sightline over it".ljust(17), said, f"goal {GOAL:.0%}: {met}")


if __name__ == "__main__":
    main()
