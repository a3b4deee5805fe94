"""A first scenario from a few answers, and the examples that come with Sightline."""

import io
import json
import sys
from pathlib import Path

import pytest

from sightline.loading import load

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def answer(monkeypatch, in_process):
    """Run ``sightline init`` with answers from a pipe."""

    def run(answers, *arguments):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answers))
        return in_process("init", *arguments)

    return run


@pytest.mark.parametrize("task", ["pretrain", "finetune", "generate", "serve"])
def test_every_question_has_a_usual_answer(answer, task):
    code, out, err = answer(f"\n\n{task}\n")
    assert (code, out) == (0, "")
    assert err.count("[") == 6
    assert load("scenario.yaml").workload.task == task
    assert f"sightline {'simulate' if task == 'serve' else 'predict'} scenario.yaml" in err


def test_answers_are_written(answer):
    assert answer("qwen3-32b\n2x h200\nserve\n500\n100\n8\n", "chat.yaml")[0] == 0
    scenario = load("chat.yaml")
    assert (scenario.model.name, scenario.cluster.devices) == ("qwen3-32b", 2)
    assert scenario.workload.requests.prompt_tokens == 500
    assert (scenario.workload.requests.output_tokens, scenario.workload.arrival.rate) == (100, 8)


def test_what_options_say_is_not_asked(answer):
    given = ("--model", "llama-3.1-8b", "--cluster", "8x h100-sxm-80gb", "--sequence", "8192", "--batch", "64")
    code, _, err = answer("", *given, "--samples", "52k", "--epochs", "3")
    assert code == 0
    assert "[" not in err
    assert load("scenario.yaml").workload.total_tokens == 3 * 52_000 * 8192


def test_a_wrong_answer_ends_the_questions(answer):
    for answers, arguments, questions in [("llama-9\n", (), 1), ("\n8x h101\n", (), 2), ("", ("--task", "trian"), 0)]:
        code, _, err = answer(answers, *arguments)
        assert (code, err.count(" [")) == (2, questions)


def test_a_file_of_another_ending_is_refused_by_its_argument(answer):
    code, _, err = answer("", "first.txt")
    assert code == 2
    assert "FILE 'first.txt'" in err
    assert "--out" not in err


@pytest.mark.parametrize(
    ("answers", "said"),
    [("llama-9\n", "llama-9"), ("\n8x h101\n", "h101"), ("\n\nserving\n", "serve"), ("\n\n\nlong\n", "long")],
)
def test_wrong_answers_are_refused_and_nothing_is_written(answer, answers, said):
    code, out, err = answer(answers)
    assert (code, out) == (2, "")
    assert said in err
    assert not Path("scenario.yaml").exists()


def test_a_file_is_overwritten_by_force_alone(answer):
    Path("scenario.yaml").write_text("mine")
    assert answer("")[0] == 2
    assert Path("scenario.yaml").read_text() == "mine"
    assert answer("", "--force")[0] == 0
    assert load("scenario.yaml").model.name == "llama-3.1-8b"


def test_examples_are_listed_printed_and_written(in_process):
    listed = json.loads(in_process("examples", "--json")[1])
    assert {"name": "llama-2-7b-zero2-8xa800.yaml", "about": "Llama-2-7B, ZeRO-2, 8 x A800"} in listed
    text = (EXAMPLES / "serving" / "llama-3.1-8b-trace.yaml").read_text()
    for name in ("llama-3.1-8b-trace", "serving/llama-3.1-8b-trace", "examples/serving/llama-3.1-8b-trace.yaml"):
        assert in_process("examples", name)[1] == text
    assert in_process("examples", "llama-3.1-8b-trace", "--write")[0] == 0
    assert Path("examples/serving/llama-3.1-8b-trace.yaml").read_text() == text
    assert Path("examples/serving/requests.csv").exists()
    assert in_process("examples", "llama-3.1-8b-trace", "--write")[0] == 2
    code, _, err = in_process("examples", "llama-2-7b-zero2-8xa80")
    assert code == 2
    assert "did you mean 'llama-2-7b-zero2-8xa800'" in err


def test_an_example_needs_no_file_here_and_one_that_is_here_comes_first(in_process):
    name = "examples/llama-2-7b-zero2-8xa800.yaml"
    assert json.loads(in_process("predict", name, "--json")[1])["scenario"]["name"] == "Llama-2-7B, ZeRO-2, 8 x A800"
    Path("examples").mkdir()
    Path(name).write_text((EXAMPLES / Path(name).name).read_text().replace("Llama-2-7B, ZeRO-2", "Mine"))
    assert json.loads(in_process("predict", name, "--json")[1])["scenario"]["name"] == "Mine, 8 x A800"
    assert in_process("explain", "examples/traces/slow-loader.json.gz")[0] == 0
