"""What Sightline wrote itself: results, archives of runs, stores, and anchors."""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from fuzzing import raw
from fuzzing.campaign import Maker
from fuzzing.inputs import Input
from fuzzing.readers.documents import EXAMPLES, as_yaml, read_yaml, written
from fuzzing.readers.tables import as_csv, as_parquet
from fuzzing.trees import Corpus

_TRAINING: Final = {
    "name": "a small step",
    "model": "llama-2-7b",
    "cluster": "8x a800-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 350, "global_batch": 16},
    "plan": {"framework": "deepspeed", "zero_stage": 2},
}
_GENERATION: Final = {
    "model": "llama-2-7b",
    "cluster": "1x a100-sxm-80gb",
    "workload": {"task": "generate", "batch": 2, "prompt_tokens": 64, "output_tokens": 8},
    "plan": {"framework": "vllm"},
}
_OPERATOR: Final = {
    "cluster": "1x a100-sxm-80gb",
    "workload": {"task": "operator", "operator": "matmul", "m": 128, "n": 1024, "k": 1024},
}


def _answers() -> list[Any]:
    """Results of predictions, and as if they had been measured."""
    import sightline as sl

    asked: list[Any] = [sl.load(one) for one in (_TRAINING, _GENERATION, _OPERATOR)]
    found = [json.loads(json.dumps(sl.predict(one).to_dict(tables=True))) for one in asked]
    return [*found, *({**one, "source": "measured"} for one in found)]


def results() -> Maker:
    """Results read back: compared, explained, and taken for the scenario that they answer."""
    corpus = Corpus(_answers())
    other = as_yaml(_TRAINING)

    def make(rng: Random) -> Input:
        suffix, content = written(rng, corpus.draw(rng), ".json", ".json", ".yaml")
        name = f"result{suffix}"
        asked: list[tuple[str, ...]] = [
            ("compare", name, "scenario.yaml"),
            ("compare", name, "predicted"),
            ("explain", name),
            ("predict", name),
            ("predict", "scenario.yaml", "--anchor", name),
        ]
        arguments = rng.choice(asked)
        return Input(verb="command", arguments=(*arguments, "--json"), files={name: content, "scenario.yaml": other})

    return make


def anchors() -> Maker:
    """Anchors: scenarios with what was measured, logs of served requests, and those that were saved by name."""
    names = ("llama-2-7b-measured-8xa800.yaml", "serving/llama-3.1-8b-measured.yaml")
    trees = [document for name in names for document in read_yaml(EXAMPLES / name)]
    logged = {**trees[1], "measured": {"requests": "log.csv"}}
    corpus = Corpus([*trees, logged, {**_GENERATION, "measured": {"ttft_s": 0.05, "tpot_s": 0.02}}])
    rows = [
        {
            "arrival_s": 0.5 * n,
            "prompt_tokens": 100,
            "output_tokens": 10,
            "first_token_s": 0.5 * n + 0.1,
            "last_token_s": 0.5 * n + 0.5,
        }
        | {"session_id": "a", "priority": 1}
        for n in range(8)
    ]
    log = Corpus([rows, [{**row, "ttft_s": 0.1, "latency_s": 0.4} for row in rows]])
    saved = Corpus(_saved())
    files = {"training.yaml": as_yaml(_TRAINING), "generation.yaml": as_yaml(_GENERATION)}

    def make(rng: Random) -> Input:
        asked = rng.choice(sorted(files))
        kind = rng.random()
        if kind < 0.3:
            _, content = written(rng, saved.draw(rng), ".json")
            words = ("predict", asked, "--anchor", "ours", "--store", "store", "--json")
            return Input(verb="command", arguments=words, files={**files, "store/.anchors/ours.json": content})
        if kind < 0.7:
            tree = log.draw(rng)
            served = tree if isinstance(tree, list) else []
            name, content = rng.choice([("log.csv", as_csv(rng, served)), ("log.parquet", as_parquet(rng, served))])
            if rng.random() < 0.2:
                content = raw.mutated(rng, content)
            measured = as_yaml({**logged, "measured": {"requests": name}})
            served_files = {**files, name: content, "measured.yaml": measured}
            return Input(
                verb="command", arguments=("predict", asked, "--anchor", "measured.yaml", "--json"), files=served_files
            )
        suffix, content = written(rng, corpus.draw(rng), ".yaml", ".json")
        arguments = ("predict", asked, "--anchor", f"measured{suffix}", "--json")
        return Input(verb="command", arguments=arguments, files={**files, f"measured{suffix}": content})

    return make


def _saved() -> list[Any]:
    """Documents of saved anchors, of training and of generation."""
    from sightline.anchors.corrected import anchored
    from sightline.anchors.sources import save
    from sightline.runs import open_store

    measured = {**_GENERATION, "measured": {"ttft_s": 0.05, "tpot_s": 0.02}}
    with TemporaryDirectory() as place:
        store = open_store(place)
        known = anchored(EXAMPLES / "llama-2-7b-measured-8xa800.yaml"), anchored(measured)
        for number, one in enumerate(known):
            save(one, f"anchor{number}", str(store.place))
        return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(place).glob(".anchors/*.json"))]


_ABOUT_RUNS: Final = (
    ("runs", "list", "--store", "store"),
    ("runs", "show", "latest", "--store", "store"),
    ("runs", "query", "SELECT * FROM runs", "--store", "store"),
    ("runs", "export", "--out", "runs.zip", "--store", "store"),
    ("explain", "latest", "--store", "store"),
    ("compare", "latest", "predicted", "--store", "store"),
    ("predict", "scenario.yaml", "--anchor", "latest", "--store", "store"),
)


_OUTSIDE: Final = ("../out", "/etc/out", "a/../../out", "C:\\out", "x" * 5_000, "\0", "run.json", "a/", "é")
"""Names that no file of an archive of runs has."""


def runs() -> Maker:
    """Archives of runs, and stores in which files are damaged."""
    store = _stored()
    archive = _zipped(store)
    parsed = {name: json.loads(content) for name, content in store.items() if name.endswith(".json")}
    corpus = Corpus(list(parsed.values()))
    scenario = {"scenario.yaml": as_yaml(_TRAINING)}

    def make(rng: Random) -> Input:
        if rng.random() < 0.35:
            content = _wrong_archive(rng, archive, store, corpus)
            arguments = ("runs", "import", "runs.zip", "--store", "store", "--json")
            return Input(verb="command", arguments=arguments, files={"runs.zip": content})
        name = rng.choice(sorted(store))
        changed = _wrong_file(rng, name, store[name], corpus)
        files = {f"store/{one}": content for one, content in {**store, name: changed}.items()}
        return Input(verb="command", arguments=(*rng.choice(_ABOUT_RUNS), "--json"), files={**files, **scenario})

    return make


def _wrong_file(rng: Random, name: str, content: bytes, corpus: Corpus) -> bytes:
    if name.endswith(".json") and rng.random() < 0.7:
        return written(rng, corpus.mutated(rng, json.loads(content)), ".json")[1]
    return raw.mutated(rng, content)


def _wrong_archive(rng: Random, archive: bytes, store: dict[str, bytes], corpus: Corpus) -> bytes:
    """A damaged archive, or one that is sound and holds what is damaged or belongs elsewhere."""
    if rng.random() < 0.4:
        return raw.mutated(rng, archive)
    chosen = rng.choice(sorted(store))
    files = {**store, chosen: _wrong_file(rng, chosen, store[chosen], corpus)}
    if rng.random() < 0.3:
        files[rng.choice(_OUTSIDE)] = b"{}"
    if rng.random() < 0.05:
        files[chosen.replace("run.json", "rows.parquet")] = b"\0" * 2**25
    return _zipped(files)


def _zipped(files: Mapping[str, bytes]) -> bytes:
    """An archive of files; its times are the earliest that it can say."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def _stored() -> dict[str, bytes]:
    """The files of a store with some runs, whatever the day and the machine are."""
    import sightline as sl
    from sightline.runs import open_store

    with TemporaryDirectory() as place:
        store = open_store(place)
        writer = store.begin("matmul", suite="standard", scenario=_OPERATOR)
        writer.sample({"time_s": 0.5})
        writer.finish(result={"time_s": 0.5}, rows=[{"operator": "matmul", "time_s": 0.5}])
        store.begin("too large").finish(status="out_of_memory", reason="it held 9 GB", output="no!")
        asked: Any = sl.load(_TRAINING)
        predicted: Any = sl.predict(asked)
        result = predicted.replace(source="measured", step_time_s=1.5 * predicted.step_time_s).to_dict()
        writer = store.begin("a small step", scenario=result.pop("scenario"))
        writer.finish(result=result, rows=predicted.table.to_dicts(), environment={"gpus": []})
        return {
            f"2026010{number}-000000-a-run-{number}/{path.name}": _without_times(path)
            for number, folder in enumerate(sorted(Path(place).iterdir()), start=1)
            for path in sorted(folder.iterdir())
        }


def _without_times(path: Path) -> bytes:
    """A file of a run; its description without what differs from day to day."""
    if path.suffix != ".json":
        return path.read_bytes()
    found = json.loads(path.read_text(encoding="utf-8"))
    times = dict.fromkeys(("created", "ended"), "2026-01-01T00:00:00.000+00:00")
    return json.dumps({**found, **times, "id": "a-run", "key": "", "command": []}).encode()
