"""``sightline init`` and ``examples``: the first scenario, written from a few answers or taken from an example."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sightline.cli import completion, output
from sightline.cli.options import AsJson, Question, argument, described
from sightline.errors import InputError, nearest

if TYPE_CHECKING:
    from sightline.loading.sources import Source

_TASKS = ("pretrain", "finetune", "generate", "serve")
_EVERY = {"model": ("Model", "llama-3.1-8b"), "cluster": ("Devices", "8x h100-sxm-80gb")}
_TRAINING = {
    "sequence": "Tokens per sample",
    "batch": "Samples per optimizer step",
    "tokens": "Tokens of the whole run, such as 2T",
}
_LENGTHS = {"prompt": "Prompt tokens", "output": "Output tokens"}
_ASKED = {
    "pretrain": _TRAINING,
    "finetune": _TRAINING,
    "generate": {**_LENGTHS, "batch": "Sequences that are generated at once"},
    "serve": {**_LENGTHS, "rate": "Requests per second"},
}
"""What is asked of each task next to model, devices and the task itself: six questions at most."""
_USUAL_RATE = "4"
_ORDER = ("model", "cluster", "workload", "plan")

Force = Annotated[bool, described("Overwrite files that exist.", "--force")]


def init(
    out: Annotated[str, argument("The file to write. Default: scenario.yaml.", "[FILE]")] = "scenario.yaml",
    *,
    question: Question,
    task: Annotated[str | None, described("pretrain, finetune, generate or serve.", metavar="TASK")] = None,
    force: Force = False,
) -> None:
    """Write a scenario file from at most six answers: model, devices, task, and the sizes of the task.

    Enter takes the value in brackets. Options answer their questions, which are then not asked; answers may come from a
    pipe.

    \b
    Examples:
      sightline init
      sightline init chat.yaml --model llama-3.1-8b --cluster "1x h100" --task serve --rate 8
      sightline init --model Qwen/Qwen3-8B --cluster "1x rtx-4090" --force
    """
    output.check({"FILE": out}, out=(".yaml", ".yml"))
    _refuse_existing([Path(out)], force=force)
    import yaml

    from sightline.loading import read_all

    source, stated = _answered(question.stated(), task)
    read_all([source])
    mapping: dict[str, Any] = source.documents[0].mapping
    text = yaml.safe_dump({key: mapping[key] for key in _ORDER if key in mapping}, sort_keys=False, width=100)
    output.write_file(out, text)
    verb = "simulate" if stated == "serve" else "predict"
    output.print_remark(f"try next: {shlex.join(('sightline', verb, out))}")


def _answered(options: dict[str, str], task: str | None) -> "tuple[Source, str]":
    """The scenario of options and of answers to what they leave out, and its task."""
    if task is not None:
        _refuse_other(task)
    for name, (label, usual) in _EVERY.items():
        options.setdefault(name, _ask(label, usual) if name not in options else "")
        _check(name, options[name])
    from sightline.loading.checks import stated_at
    from sightline.loading.question import KEYS, inferred, question

    if task is None and not options.keys() - {*_EVERY, "framework"}:
        task = _ask(f"Task ({', '.join(_TASKS)})", _TASKS[0])
    task = task or inferred(options)
    _refuse_other(task)
    usual = question(options, task=task).documents[0].mapping
    for name, label in _ASKED[task].items():
        if name in options or (name == "tokens" and "samples" in options):
            continue
        known = _USUAL_RATE if name == "rate" else stated_at(usual, KEYS[task][name])
        if answer := _ask(label, "" if known is None else str(known)):
            options[name] = answer
    return question(options, task=task), task


def _refuse_other(task: str) -> None:
    if task not in _TASKS:
        raise InputError(f"--task is '{task}'; allowed: {', '.join(_TASKS)}{nearest(task, _TASKS)}")


def _check(name: str, value: str) -> None:
    """Refuse a model or devices before more is asked."""
    from sightline.loading.clusters import read_cluster
    from sightline.loading.models import resolve_model
    from sightline.loading.sources import value_of

    if name == "model":
        resolve_model(value_of(name, value), Path())
    else:
        read_cluster(value_of(name, value))


def _ask(label: str, usual: str) -> str:
    """Ask on stderr, so that stdout stays free; an empty line, or the end of what a pipe holds, is the usual answer."""
    print(f"{label} [{usual or 'none'}]: ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not sys.stdin.isatty():
        print(file=sys.stderr)
    return answer.strip() or usual


def examples(
    name: Annotated[str | None, argument("Example to print. Default: list all.", "[NAME]", completion.examples)] = None,
    write: Annotated[bool, described("Write the example, or all, to the folder examples here.")] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """List the scenarios that come with Sightline, or print one.

    Commands take them as examples/NAME from any folder.

    \b
    Examples:
      sightline examples
      sightline examples llama-2-7b-zero2-8xa800
      sightline examples serving/llama-3.1-8b-trace.yaml --write
      sightline examples --json
    """
    from sightline.folders import EXAMPLES, example_files

    known = example_files()
    chosen = known if name is None else [_chosen(name, known)]
    if write:
        # A scenario and the tables beside it that it names.
        text = (EXAMPLES / chosen[0]).read_bytes().decode(errors="replace")
        beside = [one for one in known if Path(one).parent == Path(chosen[0]).parent and Path(one).name in text]
        written = list(dict.fromkeys((*chosen, *beside)))
        _refuse_existing([Path("examples", one) for one in written], force=force)
        for one in written:
            Path("examples", one).parent.mkdir(parents=True, exist_ok=True)
            output.write_file(str(Path("examples", one)), (EXAMPLES / one).read_bytes())
    elif name is not None and not as_json:
        output.print_text((EXAMPLES / chosen[0]).read_text(encoding="utf-8"))
    else:
        found = {one: _about(EXAMPLES / one) for one in chosen}
        width = max(map(len, found))
        output.show(
            lambda: [{"name": one, "about": about} for one, about in found.items()],
            lambda: ["\n".join(f"{one:{width}}  {about}".rstrip() for one, about in found.items())],
            json=as_json,
        )


def _chosen(name: str, known: list[str]) -> str:
    """The example of a name, which needs neither its folder nor its ending."""
    asked = name.removeprefix("examples/")
    found = [one for one in known if asked in (one, Path(one).name, Path(one).stem, one.rpartition(".")[0])]
    if not found:
        near = nearest(asked, [Path(one).stem for one in known])
        raise InputError(f"no example '{name}'{near}; list all with `sightline examples`")
    return found[0]


def _about(path: Path) -> str:
    """What an example says of itself: its name, else its first comment; empty for a table."""
    lines = path.read_bytes()[:4000].decode(errors="replace").splitlines() if path.suffix == ".yaml" else []
    said = [line for mark in ("name: ", "# ") for line in lines if line.startswith(mark)]
    return said[0].partition(" ")[2].strip("\"'") if said else ""


def _refuse_existing(paths: list[Path], *, force: bool) -> None:
    there = [str(path) for path in paths if path.exists()]
    if there and not force:
        raise InputError(f"'{there[0]}' exists; use --force to overwrite it")
